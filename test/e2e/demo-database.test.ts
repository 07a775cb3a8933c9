import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, inject, test, vi } from "vitest";
import { networkDefaults, simulate } from "../../src/simulator/network.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort, runMarketd, ServiceProcess } from "./service-process.js";

/* `marketd demo` on a database that is named, by a user with all rights on it and no other, as in compose.yaml. */

const program = fileURLToPath(new URL("../../bin/marketd", import.meta.url));
const startMaxMs = 30_000;
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
    await connection.run(`DROP DATABASE IF EXISTS ${name}`);
  });
  await root.close();
});

function ownUrl(): string {
  const own = new URL(url);
  own.username = name;
  own.password = "secret";
  return own.href;
}

/** Runs the demo until it serves and `meanwhile` is over; gives its exit code and what it printed. */
async function demo(databaseUrl: string, meanwhile: () => Promise<void>) {
  const args = ["demo", "--database-url", databaseUrl, "--listen", `127.0.0.1:${await freePort()}`];
  const child = spawn(process.execPath, [program, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (text) => {
      printed += String(text);
    });
  }
  const closed = once(child, "close");
  try {
    const isServing = () => child.exitCode !== null || printed.includes("marketd serves a simulated network");
    await vi.waitFor(() => expect(isServing()).toBe(true), startMaxMs);
    if (child.exitCode === null) await meanwhile();
  } finally {
    child.kill();
    await closed;
  }
  return { code: child.exitCode, printed };
}

test("an earlier demo is dropped, and a service that follows the database goes on with the new one", async () => {
  const service = new ServiceProcess(ownUrl(), await freePort());
  const stores = new Set<unknown>();
  /** Resolves once the service answers from a block that was made after this was called. */
  const follows = async (): Promise<void> => {
    const nowNs = BigInt(Date.now()) * 1_000_000n;
    const blockTimeNs = async () => {
      const { headers } = await fetch(`${service.url}/markets/data`);
      return BigInt(headers.get("x-block-timestamp") ?? 0);
    };
    await vi.waitFor(async () => expect(await blockTimeNs()).toBeGreaterThan(nowNs), startMaxMs);
    const [row] = await root.query<{ store_id: string }>(`SELECT store_id FROM ${name}.progress`);
    stores.add(row?.store_id);
  };
  await service.start(503);
  try {
    for (const run of [1, 2]) {
      expect(await demo(ownUrl(), follows)).toMatchObject({ code: 0 });
      expect(stores.size).toBe(run);
    }
  } finally {
    await service.kill();
  }
}, 120_000);

test("any other database is left as it is", async () => {
  const folder = await mkdtemp(join(tmpdir(), "marketd-demo-"));
  const other = newDatabaseUrl();
  const height = () => root.query(`SELECT chain_id, height FROM ${other.name}.progress`);
  try {
    const file = join(folder, "recording");
    writeFileSync(file, Buffer.concat([...simulate({ ...networkDefaults, blocks: 5 })]));
    await runMarketd("load", "--database-url", other.url, file);
    const before = await height();
    const ended = await demo(other.url, async () => {});
    expect(ended.code).toBe(1);
    expect(ended.printed).toMatch(/the database holds chain "simulated-1"/);
    expect(await height()).toEqual(before);
  } finally {
    await root.withConnection((connection) => connection.run(`DROP DATABASE ${other.name}`));
    await rm(folder, { recursive: true, force: true });
  }
}, 60_000);
