import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, inject, test, vi } from "vitest";
import { networkDefaults, simulate } from "../../src/simulator/network.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { loadRecording } from "../support/load-recording.js";
import { ServiceProcess } from "./service-process.js";

/* `marketd demo` on a database that is named, by a user with all rights on it and no other, as in compose.yaml. */

const program = fileURLToPath(new URL("../../bin/marketd", import.meta.url));
const startMaxMs = 90_000;
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
async function demo(databaseUrl: string, meanwhile: () => Promise<unknown>) {
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

function load(databaseUrl: string, chainId: string): Promise<void> {
  return loadRecording(databaseUrl, Buffer.concat([...simulate({ ...networkDefaults, chainId, blocks: 5 })]));
}

test("an earlier demo is dropped, and a service that follows the database goes on with the new one", async () => {
  await load(ownUrl(), `demo-1-${Date.now()}`);
  const service = new ServiceProcess(ownUrl(), await freePort());
  const blockTimeMs = async () => {
    const { headers } = await fetch(`${service.url}/markets/data`);
    return Number(BigInt(headers.get("x-block-timestamp") ?? 0) / 1_000_000n);
  };
  await service.start();
  try {
    const startedMs = Date.now();
    expect(await blockTimeMs()).toBeLessThan(startedMs);
    const follows = () => vi.waitFor(async () => expect(await blockTimeMs()).toBeGreaterThan(startedMs), startMaxMs);
    expect(await demo(ownUrl(), follows)).toMatchObject({ code: 0 });
  } finally {
    await service.kill();
  }
}, 240_000);

test("any other database is left as it is", async () => {
  const other = newDatabaseUrl();
  const progress = () => root.query(`SELECT store_id, chain_id, height FROM ${other.name}.progress`);
  await load(other.url, "another");
  const before = await progress();
  const ended = await demo(other.url, async () => {});
  expect(ended.code).toBe(1);
  expect(ended.printed).toContain('the database holds chain "another"');
  expect(await progress()).toEqual(before);
  await root.withConnection((connection) => connection.run(`DROP DATABASE ${other.name}`));
});
