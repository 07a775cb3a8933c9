import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test, vi } from "vitest";
import { takeExclusiveLock } from "../../src/embedded/exclusive-lock.js";
import { networkDefaults, simulate } from "../../src/simulator/network.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { selfSigned } from "../support/certificate.js";
import { makeDataDirectory, newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { loadRecording } from "../support/load-recording.js";
import { partnerProgram } from "../support/partners.js";
import { ServiceProcess } from "./service-process.js";

/*
 * `marketd demo` on a database that is named, by a user with all rights on it and no other, as in compose.yaml, and on a
 * private server.
 */

const program = fileURLToPath(new URL("../../bin/marketd", import.meta.url));
const startMaxMs = 90_000;
const stopMaxMs = 20_000;
/** Until a demo that has failed has ended. */
const endMaxMs = 15_000;
const { url, name } = newDatabaseUrl();
let root: Database;

beforeAll(async () => {
  const server = new URL(inject("serverUrl"));
  server.pathname = "/mysql";
  root = openDatabase(server.href);
  await root.withConnection(async (connection) => {
    await connection.run(`CREATE DATABASE ${name}`);
    await connection.run(`CREATE USER '${name}'@'%' IDENTIFIED BY 'secret'`);
    await connection.run(`GRANT ALL ON ${name}.* TO '${name}'@'%'`);
  });
});

afterAll(async () => {
  await root.withConnection(async (connection) => {
    await connection.run(`DROP USER '${name}'@'%'`);
  });
  await drop(name);
  await root.close();
});

function ownUrl(): string {
  const own = new URL(url);
  own.username = name;
  own.password = "secret";
  return own.href;
}

/** A demo that runs. */
interface RunningDemo {
  readonly closed: Promise<unknown>;
  readonly printed: () => string;
}

/** How a demo ended. */
interface EndedDemo {
  readonly code: number | null;
  readonly printed: string;
}

/** Runs the demo until it serves and `meanwhile` is over; gives its exit code and what it printed. */
async function demo(
  args: readonly string[],
  meanwhile: (running: RunningDemo) => Promise<unknown> = async () => {},
): Promise<EndedDemo> {
  const child = spawn(process.execPath, [program, "demo", ...args], { stdio: ["ignore", "pipe", "pipe"] });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (text) => {
      printed += String(text);
    });
  }
  const closed = once(child, "close");
  try {
    const isServing = () => child.exitCode !== null || printed.includes("Ctrl-C ends it");
    await vi.waitFor(() => expect(isServing()).toBe(true), startMaxMs);
    if (child.exitCode === null) await meanwhile({ closed, printed: () => printed });
  } finally {
    child.kill();
    const killer = setTimeout(() => child.kill("SIGKILL"), stopMaxMs);
    await closed;
    clearTimeout(killer);
  }
  return { code: child.exitCode, printed };
}

async function on(databaseUrl: string): Promise<string[]> {
  return ["--database-url", databaseUrl, "--listen", `127.0.0.1:${await freePort()}`];
}

function drop(database: string): Promise<unknown> {
  return root.withConnection((connection) => connection.run(`DROP DATABASE IF EXISTS ${database}`));
}

async function within(ms: number, promise: Promise<unknown>): Promise<void> {
  const late = sleep(ms, undefined, { ref: false }).then(() => Promise.reject(new Error(`not within ${ms} ms`)));
  await Promise.race([promise, late]);
}

function load(databaseUrl: string, chainId: string): Promise<void> {
  return loadRecording(databaseUrl, Buffer.concat([...simulate({ ...networkDefaults, chainId, blocks: 5 })]));
}

const certificate = selfSigned();
const curl = partnerProgram("curl");
const hasTls = certificate !== undefined && curl !== undefined;
if (!hasTls) process.stderr.write("skipped: a demo with TLS (openssl or curl is not on this machine)\n");

test("an earlier demo is dropped, and a service that follows the database goes on with the new one", async () => {
  await load(ownUrl(), `demo-1-${Date.now()}`);
  const folder = mkdtempSync(join(tmpdir(), "marketd-demo-"));
  const [certificateFile, keyFile] = [join(folder, "certificate"), join(folder, "key")];
  writeFileSync(certificateFile, certificate?.certificate ?? "");
  writeFileSync(keyFile, certificate?.key ?? "");
  const tls = hasTls ? ["--tls-certificate", certificateFile, "--tls-key", keyFile] : [];
  const service = new ServiceProcess(ownUrl(), await freePort());
  const blockTimeMs = async () => {
    const { headers } = await fetch(`${service.url}/markets/data`);
    return Number(BigInt(headers.get("x-block-timestamp") ?? 0) / 1_000_000n);
  };
  await service.start();
  try {
    const startedMs = Date.now();
    expect(await blockTimeMs()).toBeLessThan(startedMs);
    const ended = await demo([...(await on(ownUrl())), ...tls], async ({ printed }) => {
      await vi.waitFor(async () => expect(await blockTimeMs()).toBeGreaterThan(startedMs), startMaxMs);
      if (hasTls) await expectCallsWithTls(printed());
    });
    expect(ended).toMatchObject({ code: 0 });
  } finally {
    await service.kill();
    rmSync(folder, { recursive: true });
  }
}, 240_000);

/** The calls that a demo prints do not verify its certificate. */
async function expectCallsWithTls(printed: string): Promise<void> {
  const [, call = ""] = /^ {2}all market data +(curl .*)$/m.exec(printed) ?? [];
  const { stdout } = await promisify(execFile)("sh", ["-c", call]);
  expect(JSON.parse(stdout).marketsData).toHaveLength(12);
  expect(printed).toMatch(/^ {2}by gRPC +grpcurl -insecure .* 127\.0\.0\.1:\d+ \S+\/GetLatestMarketDepth$/m);
}

test("any other database is left as it is", async () => {
  const other = newDatabaseUrl();
  const progress = () => root.query(`SELECT store_id, chain_id, height FROM ${other.name}.progress`);
  await load(other.url, "another");
  const before = await progress();
  const ended = await demo(await on(other.url));
  expect(ended.code).toBe(1);
  expect(ended.printed).toContain('the database holds chain "another"');
  expect(await progress()).toEqual(before);
  await drop(other.name);
});

test("ends with one line when its database is dropped while it serves", async () => {
  const own = newDatabaseUrl();
  const ended = await demo(await on(own.url), async ({ closed }) => {
    await drop(own.name);
    await within(endMaxMs, closed);
  });
  expect(ended.code).toBe(1);
  expect(ended.printed).toMatch(/^marketd: the database refused a statement: .*\n$/m);
}, 120_000);

describe("on a private server", () => {
  let dataDir = "";

  beforeEach(() => {
    const folder = mkdtempSync(join(tmpdir(), "marketd-demo-"));
    dataDir = join(folder, "data");
    makeDataDirectory(dataDir);
  });

  afterEach(() => rmSync(dirname(dataDir), { recursive: true, force: true }));

  test("two demos on any free port leave each other's database alone", async () => {
    const args = ["--data-dir", dataDir, "--listen", "127.0.0.1:0", "--workers", "1"];
    const blockOf = async (url: string) => (await fetch(`${url}/markets/data`)).headers.get("x-block-height");
    const goesOn = async ({ printed }: RunningDemo) => {
      const [, url = ""] = /^marketd serves a simulated network on (\S+)$/m.exec(printed()) ?? [];
      const first = BigInt((await blockOf(url)) ?? 0);
      await vi.waitFor(async () => expect(BigInt((await blockOf(url)) ?? 0)).toBeGreaterThan(first + 2n), startMaxMs);
    };
    let firstServes: (running: RunningDemo) => void = () => {};
    const serving = new Promise<RunningDemo>((resolve) => {
      firstServes = resolve;
    });
    let release: () => void = () => {};
    const over = new Promise<void>((resolve) => {
      release = resolve;
    });
    const first = demo(args, (running) => {
      firstServes(running);
      return over;
    });
    const running = await Promise.race([serving, first.then(({ printed }) => Promise.reject(new Error(printed)))]);
    const second = await demo(args, async (other) => {
      await Promise.all([goesOn(other), goesOn(running)]);
    }).finally(release);
    expect([second.code, (await first).code]).toEqual([0, 0]);
  }, 240_000);

  test("a second one of the same address is refused, and drops nothing", async () => {
    const port = await freePort();
    const lock = await takeExclusiveLock(join(dataDir, `marketd_demo_127_0_0_1_${port}.lock`), 0);
    try {
      const ended = await demo(["--data-dir", dataDir, "--listen", `127.0.0.1:${port}`]);
      const file = `marketd_demo_127_0_0_1_${port} in ${realpathSync(dataDir)}`;
      expect(ended).toEqual({
        code: 1,
        printed: `marketd: another demo uses the database ${file}; stop it, or choose another address with --listen\n`,
      });
    } finally {
      if (lock !== undefined) closeSync(lock);
    }
  });
});
