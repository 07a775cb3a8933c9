import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, type Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type EmbeddedDatabase, openEmbedded } from "../../src/embedded/open-embedded.js";
import { findServerPrograms } from "../../src/embedded/server-programs.js";
import { load, stopSilenceMsMax } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { simulate } from "../../src/simulator/network.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { idleConnectionSeconds, idleTransactionSeconds } from "../../src/store/writer.js";
import { createLog } from "../../src/telemetry/log.js";
import { processesOf, processOf, until } from "../embedded/processes.js";
import { makeDataDirectory, newDatabaseUrl } from "../support/database.js";
import { dump } from "../support/dump.js";
import { HalfOpenProxy } from "../support/half-open-proxy.js";
import { withoutLog } from "../support/log-lines.js";
import { canMount } from "../support/mounts.js";
import { inChunks } from "../support/recording.js";

/* What a database can do to a loader in the middle of a load. The rows are those of an undisturbed one each time. */

const program = fileURLToPath(new URL("../../bin/marketd", import.meta.url));
const log = createLog("silent");
const blocks = 60;
const healMsMax = 2_000;
/** Everything that a loader may need, and no right to write to a server that is read-only. */
const grant =
  "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, REFERENCES, PROCESS ON *.* TO loader@'%'";
const isMySql = (await findServerPrograms().catch(() => undefined))?.kind === "mysql";

let folder: string;
let file: string;
let recording: Buffer;
let undisturbed: string[];
let server: EmbeddedDatabase;
/** As root, which nothing stops, to bring faults about. */
let admin: Database;
let databases = 0;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "marketd-faults-"));
  file = join(folder, "recording.evts");
  const network = { seed: 11, markets: 3, parties: 10, ordersPerBlock: 6, entriesPerBlock: 30, blocks };
  recording = Buffer.concat([...simulate(network)]);
  writeFileSync(file, recording);
  const { url } = newDatabaseUrl();
  await migrate(url, log);
  await load({ database: url, sources: [streamSource(inChunks(recording), "whole")], log });
  undisturbed = await dump(url);
  server = await openPrivate(join(folder, "data"));
  admin = openDatabase(withName(server.url, "mysql"));
  await run("CREATE USER loader@'%' IDENTIFIED BY ''");
  await run(grant);
});

afterAll(async () => {
  await admin.close();
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

function openPrivate(dataDir: string): Promise<EmbeddedDatabase> {
  makeDataDirectory(dataDir);
  return openEmbedded({ dataDir, log, onProgress: () => {}, bufferPoolBytes: 32 * 1024 * 1024 });
}

/** Leads connections to a server, once it listens. */
function listenerBefore(url: string): Server {
  return createServer((client) => {
    const upstream = connect(Number(new URL(url).port), "127.0.0.1");
    for (const socket of [client, upstream]) socket.on("error", () => {});
    client.pipe(upstream).pipe(client);
  });
}

function withName(url: string, name: string, user = "root"): string {
  const named = new URL(url);
  named.pathname = `/${name}`;
  named.username = user;
  return named.href;
}

function run(sql: string): Promise<unknown> {
  return admin.withConnection((connection) => connection.run(sql));
}

/** A load of the recording into a database of its own, as a process of its own. */
class LoadProcess {
  readonly url: string;
  readonly child: ChildProcess;
  readonly ended: Promise<unknown>;
  error = "";
  readonly #store: Database;

  constructor(base: string, source: "file" | "pipe" | "open pipe", ...more: string[]) {
    this.url = withName(base, `load_${++databases}`, "loader");
    this.#store = openDatabase(withName(server.url, `load_${databases}`), { connectionsMax: 1 });
    const args = ["load", "--log-level", "warn", "--database-url", this.url, ...more, source === "file" ? file : "-"];
    this.child = spawn(process.execPath, [program, ...args], { stdio: ["pipe", "ignore", "pipe"] });
    this.child.stderr?.on("data", (text) => {
      this.error += String(text);
    });
    this.child.stdin?.on("error", () => {});
    const input = this.child.stdin as Writable;
    if (source !== "file") Readable.from(inChunks(recording, 20_000)).pipe(input, { end: source === "pipe" });
    this.ended = once(this.child, "close");
  }

  async height(): Promise<number> {
    try {
      const [row] = await this.#store.query<{ height: bigint }>("SELECT height FROM progress");
      return Number(row?.height ?? 0n);
    } catch {
      return 0;
    }
  }

  async untilHeight(height: number): Promise<void> {
    while ((await this.height()) < height) {
      if (this.child.exitCode !== null) throw new Error(`ended with ${this.child.exitCode}: ${this.error}`);
      await sleep(25);
    }
  }

  /** The time until the load goes on, in milliseconds. */
  async untilMoved(): Promise<number> {
    const startedAt = performance.now();
    const height = await this.height();
    if (height < blocks) await this.untilHeight(height + 1);
    return performance.now() - startedAt;
  }

  /** Its exit code and its own lines on standard error, without those of the log. */
  async result(): Promise<{ code: number | null; error: string }> {
    const killer = setTimeout(() => this.child.kill("SIGKILL"), 60_000);
    await this.ended;
    clearTimeout(killer);
    await this.#store.close();
    return { code: this.child.exitCode, error: withoutLog(this.error) };
  }

  get logged(): string[] {
    return [...this.error.matchAll(/^\{.*"msg":"(.*)"\}$/gm)].map(([, message]) => message ?? "");
  }

  async expectWhole(): Promise<void> {
    expect(await this.result()).toEqual({ code: 0, error: "" });
    expect(await dump(withName(server.url, new URL(this.url).pathname.slice(1)))).toEqual(undisturbed);
  }
}

function serverPid(dataDir = join(folder, "data")): number {
  return processOf(dataDir, "server").pid;
}

async function untilServing(): Promise<void> {
  await until("a server", 20_000, () =>
    run("DO 1").then(
      () => true,
      () => false,
    ),
  );
}

describe("a fault in the middle of a load", () => {
  it.each(["file", "pipe"] as const)("the server is killed (%s)", async (source) => {
    const loading = new LoadProcess(server.url, source, "--pace", "60");
    await loading.untilHeight(20);
    const pid = serverPid();
    process.kill(pid, "SIGKILL");
    await until("another server", 20_000, () => processesOf(join(folder, "data"), "server").some((p) => p.pid !== pid));
    await untilServing();
    expect(await loading.untilMoved()).toBeLessThan(healMsMax);
    await loading.expectWhole();
    expect(loading.logged[0]).toMatch(/^the database cannot be reached: .*; trying again for up to 600 s$/);
    expect(loading.logged.at(-1)).toBe("the load goes on");
  });

  it("the server is killed again and again while batches of many blocks are loaded from a stream", async () => {
    const url = withName(server.url, `load_${++databases}`);
    await migrate(url, log);
    let kills = 0;
    async function* chunks() {
      for await (const chunk of inChunks(recording, Math.ceil(recording.length / 40))) {
        yield chunk;
        if (kills >= 4 || Math.random() < 0.8) continue;
        await untilServing();
        process.kill(serverPid(), "SIGKILL");
        kills++;
      }
    }
    await load({ database: url, sources: [streamSource(chunks(), "stream")], log, transactionRowsMax: 150 });
    expect(kills).toBeGreaterThan(0);
    expect(await dump(url)).toEqual(undisturbed);
  });

  it("the server is stopped and goes on (pipe)", async () => {
    const loading = new LoadProcess(server.url, "pipe", "--pace", "60");
    await loading.untilHeight(20);
    const pid = serverPid();
    process.kill(pid, "SIGSTOP");
    await sleep(4_000);
    process.kill(pid, "SIGCONT");
    expect(await loading.untilMoved()).toBeLessThan(healMsMax);
    await loading.expectWhole();
  });

  it.each(["file", "pipe"] as const)("the database is read-only for a while (%s)", async (source) => {
    const loading = new LoadProcess(server.url, source, "--pace", "60");
    await loading.untilHeight(20);
    await run("SET GLOBAL read_only = 1");
    await sleep(1_000);
    const height = await loading.height();
    await sleep(500);
    expect(await loading.height()).toBe(height);
    await run("SET GLOBAL read_only = 0");
    expect(await loading.untilMoved()).toBeLessThan(healMsMax);
    await loading.expectWhole();
    expect(loading.logged).toEqual([
      expect.stringMatching(
        /^the database refused a statement: .*--read-only.* \(ER_OPTION_PREVENTS_STATEMENT\); trying/,
      ),
      "the load goes on",
    ]);
  });

  it("another session holds a lock for longer than the loader waits (pipe)", async () => {
    const loading = new LoadProcess(server.url, "pipe", "--pace", "60");
    await loading.untilHeight(20);
    const { pathname } = new URL(loading.url);
    await admin.withConnection(async (connection) => {
      await connection.run("START TRANSACTION");
      await connection.query(`SELECT * FROM ${pathname.slice(1)}.progress FOR UPDATE`);
      await sleep(6_500);
      await connection.run("ROLLBACK");
    });
    expect(await loading.untilMoved()).toBeLessThan(healMsMax);
    await loading.expectWhole();
    expect(loading.logged[0]).toMatch(
      /^the database refused a statement: Lock wait timeout .*\(ER_LOCK_WAIT_TIMEOUT\)/,
    );
  });

  it.each([
    ["a statement", "dieAt", "INSERT INTO block"],
    ["a commit", "dieAt", "COMMIT"],
    ["a statement whose rows the server waits for", "loseReplyTo", "LOAD DATA"],
  ] as const)("the connection dies half-way with %s, and its transaction stays open", async (_name, fault, text) => {
    const proxy = await HalfOpenProxy.before(server.url);
    const loading = new LoadProcess(proxy.url, "pipe", "--pace", "60");
    await loading.untilHeight(20);
    await proxy[fault](text);
    await sleep(3_000);
    proxy.revive();
    expect(await loading.untilMoved()).toBeLessThan(healMsMax);
    await loading.expectWhole();
    await proxy.close();
  });

  it("the connection dies half-way, and what is to end its session is lost too", async () => {
    const proxy = await HalfOpenProxy.before(server.url);
    const loading = new LoadProcess(proxy.url, "pipe", "--pace", "60");
    await loading.untilHeight(20);
    await proxy.dieAt("INSERT INTO block");
    const killed = proxy.dieAt("KILL ");
    proxy.revive();
    await killed;
    proxy.revive();
    expect(await loading.untilMoved()).toBeLessThan(2 * healMsMax);
    await loading.expectWhole();
    await proxy.close();
  });

  it("a commit succeeds whose response is lost: the block is not written twice", async () => {
    const proxy = await HalfOpenProxy.before(server.url);
    const loading = new LoadProcess(proxy.url, "pipe", "--pace", "60");
    await loading.untilHeight(20);
    await proxy.loseReplyTo("COMMIT");
    await sleep(500);
    proxy.revive();
    await loading.expectWhole();
    await proxy.close();
  });
});

describe("what ends a load", () => {
  it("a user that may not write any more: one line, 1", async () => {
    const loading = new LoadProcess(server.url, "pipe", "--pace", "60");
    await loading.untilHeight(10);
    await run("REVOKE INSERT, UPDATE ON *.* FROM loader@'%'");
    // Rights on everything are looked at when a connection begins.
    const sessions = await admin.query<{ id: bigint }>(
      "SELECT CAST(id AS SIGNED) AS id FROM information_schema.processlist WHERE user = 'loader'",
    );
    for (const { id } of sessions) await run(`KILL ${id}`);
    try {
      const { code, error } = await loading.result();
      expect([code, error]).toEqual([
        1,
        expect.stringMatching(/^marketd: the database refuses its user: .*denied.*\n$/),
      ]);
    } finally {
      await run(grant);
    }
  });

  it("a table that has gone: one line, 1", async () => {
    const loading = new LoadProcess(server.url, "pipe", "--pace", "60");
    await loading.untilHeight(10);
    await run(`DROP TABLE ${new URL(loading.url).pathname.slice(1)}.block`);
    expect(await loading.result()).toEqual({
      code: 1,
      error: expect.stringMatching(
        /^marketd: the database refused a statement: .* doesn't exist \(ER_NO_SUCH_TABLE\)\n$/,
      ),
    });
  });

  it("an outage that lasts too long: one line that says why, and for how long it was tried", async () => {
    const proxy = await HalfOpenProxy.before(server.url);
    const url = withName(proxy.url, `load_${++databases}`);
    await migrate(url, log);
    const source = async function* () {
      yield recording.subarray(0, 40_000);
      await proxy.close();
      yield recording.subarray(40_000);
    };
    const loading = load({ database: url, sources: [streamSource(source(), "s")], log, outageMsMax: 700 });
    await expect(loading).rejects.toThrow(/^the database cannot be reached: .*ECONNREFUSED.*; tried for 0\.7 s$/);
  });

  it("a database that goes away while the load starts: it goes on when it is back", async () => {
    const proxy = await HalfOpenProxy.before(server.url);
    const listener = listenerBefore(proxy.url);
    // The first connection breaks, and nobody listens for a while.
    const gone = createServer().listen(0, "127.0.0.1");
    await once(gone, "listening");
    const url = new URL(proxy.url);
    url.port = String((gone.address() as AddressInfo).port);
    const loading = new LoadProcess(url.href, "pipe");
    gone.once("connection", (client) => {
      gone.close();
      client.destroy();
    });
    await once(gone, "close");
    await sleep(300);
    listener.listen(Number(url.port), "127.0.0.1");
    await loading.expectWhole();
    expect(loading.logged.join()).toMatch(/trying again for up to 60 s.*ECONNREFUSED.*trying again/);
    listener.close();
    await proxy.close();
  });

  it("a database that goes away between its migration and the load: it goes on when it is back", async () => {
    const proxy = await HalfOpenProxy.before(server.url);
    const url = new URL(withName(proxy.url, `load_${++databases}`));
    await migrate(url.href, log);
    const listener = listenerBefore(proxy.url).listen(0, "127.0.0.1");
    await once(listener, "listening");
    url.port = String((listener.address() as AddressInfo).port);
    listener.close();
    await once(listener, "close");
    const loading = load({ database: url.href, sources: [streamSource(inChunks(recording), "s")], log });
    await sleep(300);
    listener.listen(Number(url.port), "127.0.0.1");
    await loading;
    expect(await dump(url.href)).toEqual(undisturbed);
    listener.close();
    await proxy.close();
  });

  it.each([
    ["SIGTERM", 1],
    ["SIGINT", 1],
  ] as const)("%s while the database is silent: soon, with a line", async (signal, code) => {
    const proxy = await HalfOpenProxy.before(server.url);
    const loading = new LoadProcess(proxy.url, "pipe", "--pace", "60");
    await loading.untilHeight(20);
    await proxy.dieAt("INSERT INTO block");
    await sleep(300);
    const startedAt = performance.now();
    loading.child.kill(signal);
    const { code: ended, error } = await loading.result();
    expect(performance.now() - startedAt).toBeLessThan(stopSilenceMsMax + 2_000);
    expect([ended, error]).toEqual([
      code,
      expect.stringMatching(
        /^marketd: stopped with blocks that were not written: the database cannot be reached: .*; load again to continue\n$/,
      ),
    ]);
    await proxy.close();
  });

  it("a second SIGTERM: at once", async () => {
    const proxy = await HalfOpenProxy.before(server.url);
    const loading = new LoadProcess(proxy.url, "pipe", "--pace", "60");
    await loading.untilHeight(20);
    await proxy.dieAt("INSERT INTO block");
    loading.child.kill("SIGTERM");
    await sleep(300);
    expect(loading.child.exitCode).toBeNull();
    const startedAt = performance.now();
    loading.child.kill("SIGTERM");
    await loading.ended;
    expect(performance.now() - startedAt).toBeLessThan(500);
    expect(loading.child.signalCode).toBe("SIGTERM");
    await proxy.close();
  });

  it.each([
    ["SIGTERM", 0],
    ["SIGINT", 130],
  ] as const)("%s while the input pauses: whole blocks are written, and the process ends", async (signal, code) => {
    const loading = new LoadProcess(server.url, "open pipe");
    await loading.untilHeight(blocks - 1);
    const startedAt = performance.now();
    loading.child.kill(signal);
    expect((await loading.result()).code).toBe(code);
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  });

  it("a load that starts while the database is silent waits for it", async () => {
    const pid = serverPid();
    process.kill(pid, "SIGSTOP");
    const loading = new LoadProcess(server.url, "pipe");
    try {
      await expect.poll(() => loading.logged, { timeout: 20_000 }).toHaveLength(1);
      expect(loading.logged[0]).toMatch(/^the database cannot be reached: .*; trying again for up to 60 s$/);
    } finally {
      process.kill(pid, "SIGCONT");
    }
    await loading.expectWhole();
  });

  it("nothing, where the next loader is concerned: one that hangs does not block it for long", async () => {
    const proxy = await HalfOpenProxy.before(server.url);
    const hanging = new LoadProcess(proxy.url, "pipe", "--pace", "60");
    await hanging.untilHeight(20);
    await proxy.dieAt("INSERT INTO block");
    // Stopped, it cannot find out that its connection is dead.
    hanging.child.kill("SIGSTOP");
    const url = withName(server.url, new URL(hanging.url).pathname.slice(1));
    const startedAt = performance.now();
    await load({ database: url, sources: [streamSource(inChunks(recording), "next")], log });
    const idleSeconds = isMySql ? idleConnectionSeconds : idleTransactionSeconds;
    expect(performance.now() - startedAt).toBeLessThan((idleSeconds + 3) * 1_000);
    expect(await dump(url)).toEqual(undisturbed);
    hanging.child.kill("SIGKILL");
    await proxy.close();
  });
});

/** Writes until nothing fits any more: the server writes meanwhile. */
function fill(path: string): void {
  for (const bytes of [1024 * 1024, 4 * 1024]) {
    try {
      for (;;) appendFileSync(path, Buffer.alloc(bytes));
    } catch {
      // Full, for pieces of this size.
    }
  }
}

describe.runIf(canMount)("on a disk of its own", () => {
  it("the disk is full for a while (pipe)", async () => {
    const disk = join(folder, "disk");
    mkdirSync(disk);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=220m", "tmpfs", disk]);
    try {
      const small = await openPrivate(join(disk, "data"));
      const url = withName(small.url, "load");
      await migrate(url, log);
      const filler = join(disk, "filler");
      let freedAt = 0;
      async function* chunks() {
        yield recording.subarray(0, recording.length >> 1);
        fill(filler);
        yield* inChunks(recording.subarray(recording.length >> 1), 20_000);
      }
      const said: string[] = [];
      const told = createLog("silent");
      told.warn = ((text: unknown) => void said.push(String(text))) as typeof told.warn;
      const loading = load({
        database: url,
        sources: [streamSource(chunks(), "s")],
        log: told,
        transactionRowsMax: 300,
      });
      loading.catch(() => {});
      await until("a complaint", 20_000, () => said.length > 0);
      rmSync(filler);
      freedAt = performance.now();
      await loading;
      expect(performance.now() - freedAt).toBeLessThan(healMsMax + 2_000);
      expect(await dump(url)).toEqual(undisturbed);
      expect(said[0]).toMatch(/full|space|cannot be reached/);
      await small.close();
    } finally {
      execFileSync("umount", ["-l", disk]);
    }
  });
});
if (!canMount) process.stderr.write("skipped: a full disk under a load (needs a user who may mount a small one)\n");
