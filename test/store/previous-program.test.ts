import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { Network, networkDefaults } from "../../src/simulator/network.js";
import type { Connection } from "../../src/store/connection/connection.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { segmentStates } from "../../src/store/history-table.js";
import { dropDatabase, migrate } from "../../src/store/migrate.js";
import { readMigrations } from "../../src/store/migration-files.js";
import { createLog } from "../../src/telemetry/log.js";
import { renderFinding } from "../../src/verify/findings.js";
import { renewDigests } from "../../src/verify/renew-digests.js";
import { verify } from "../../src/verify/verify.js";
import { startTestService, type TestService } from "../live/service.js";
import { newDatabaseUrl } from "../support/database.js";

/** The last commit whose program knows the first schema alone. */
const previousCommit = "fb920bf";
const root = fileURLToPath(new URL("../../", import.meta.url));
const log = createLog("silent");
const version = readMigrations().length;

/** What is used of the previous program; its modules have the shapes of ours, as far as that goes. */
interface PreviousProgram {
  readonly migrate: (url: string, log: unknown) => Promise<{ readonly version: number; readonly applied: number }>;
  readonly load: (options: object) => Promise<object>;
  readonly startService: (options: object) => Promise<TestService>;
  readonly createMetrics: () => unknown;
}

function extractPrevious(): string | undefined {
  const archive = spawnSync("git", ["archive", previousCommit, "src", "gen", "package.json"], {
    cwd: root,
    maxBuffer: 1 << 28,
  });
  if (archive.status !== 0) return undefined;
  const directory = mkdtempSync(join(tmpdir(), "marketd-previous-"));
  const unpacked = spawnSync("tar", ["-x", "-C", directory], { input: archive.stdout });
  if (unpacked.status !== 0) throw new Error(`the previous program cannot be unpacked: ${unpacked.stderr}`);
  symlinkSync(join(root, "node_modules"), join(directory, "node_modules"));
  return directory;
}

const directory = extractPrevious();
if (directory === undefined) {
  process.stderr.write(`skipped: the program of ${previousCommit} on today's schema (its commit is not here)\n`);
}
const it = test.skipIf(directory === undefined);

let previous: PreviousProgram;
const { url } = newDatabaseUrl();
const services: TestService[] = [];
const network = new Network({ ...networkDefaults, seed: 9, chainId: "previous-chain", parties: 10 });

beforeAll(async () => {
  if (directory === undefined) return;
  const module = async (path: string) => (await import(pathToFileURL(join(directory, path)).href)) as PreviousProgram;
  previous = {
    migrate: (await module("src/store/migrate.ts")).migrate,
    load: (await module("src/loader/load.ts")).load,
    startService: (await module("src/commands/service.ts")).startService,
    createMetrics: (await module("src/telemetry/metrics.ts")).createMetrics,
  };
});

afterAll(async () => {
  await Promise.all(services.map((service) => service.drain()));
  await dropDatabase(url);
  if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
});

async function startPrevious(databaseUrl: string): Promise<TestService> {
  const config = {
    ...{ listen: { host: "127.0.0.1", port: 0 }, basePath: "", tls: undefined, corsOrigins: ["*"], workers: 1 },
    ...{ grpcLane: true, pollIntervalMs: 5, heartbeatMs: 15_000, stalledReaderMs: 300_000, streamsMax: 20_000 },
    ...{ streamsPerAddressMax: 1_000, requestTimeoutMs: 30_000, drainMs: 1_000 },
  };
  const service = await previous.startService({ config, databaseUrl, log, metrics: previous.createMetrics() });
  services.push(service);
  return service;
}

async function startNew(databaseUrl: string): Promise<TestService> {
  const service = await startTestService(databaseUrl);
  services.push(service);
  return service;
}

/** The previous program reads `bytes`. */
function sourceOf(bytes: Readable) {
  return { ...streamSource(bytes, "a simulated network"), bytes };
}

async function grow(program: Pick<PreviousProgram, "load">, databaseUrl: string, blocks: number): Promise<void> {
  const recording = Array.from({ length: blocks }, () => network.nextBlock());
  const source = sourceOf(Readable.from(recording, { objectMode: false }));
  await program.load({ database: databaseUrl, sources: [source], log });
}

const ours: Pick<PreviousProgram, "load"> = { load: (options) => load(options as Parameters<typeof load>[0]) };

async function withDatabase<T>(use: (database: Database) => Promise<T>): Promise<T> {
  const database = openDatabase(url, { connectionsMax: 3 });
  try {
    return await use(database);
  } finally {
    await database.close();
  }
}

function withConnection<T>(use: (connection: Connection) => Promise<T>): Promise<T> {
  return withDatabase((database) => database.withConnection(use));
}

/** What a service answers from memory and from the database, and up to which block. */
async function responses(service: TestService): Promise<object> {
  const text = async (path: string) => (await fetch(service.url + path)).text();
  const metrics = await text("/metrics");
  const list = JSON.parse(await text("/api/v2/markets/data")) as { marketsData: { market: string }[] };
  const depths = list.marketsData.slice(0, 5).map(({ market }) => text(`/api/v2/market/depth/${market}/latest`));
  return {
    height: /^marketd_block_height (\d+)$/m.exec(metrics)?.[1],
    list,
    depths: await Promise.all(depths),
    ledger: await text("/api/v2/ledgerentry/history?pagination.first=500"),
    bundles: await text("/api/v2/erc20/multisigcontrol/signer/removed/bundles"),
  };
}

async function agree(...services: TestService[]): Promise<void> {
  const height = String(network.height);
  const [first, ...others] = services;
  if (first === undefined) throw new Error("there is nothing to compare");
  await expect.poll(() => responses(first), { timeout: 10_000 }).toMatchObject({ height });
  const expected = await responses(first);
  for (const other of others) await expect.poll(() => responses(other), { timeout: 10_000 }).toEqual(expected);
}

it("the first schema with data in it is migrated under a program that goes on to serve, to load and to start", async () => {
  await previous.migrate(url, log);
  await grow(previous, url, 20);
  const old = await startPrevious(url);
  await agree(old);
  await expect(startTestService(url)).rejects.toThrow(`this program needs ${version}: run marketd migrate`);

  expect(await migrate(url, log)).toMatchObject({ applied: version - 1, version });
  await agree(old, await startNew(url));
  // The previous program takes the schema for its own.
  expect(await previous.migrate(url, log)).toMatchObject({ applied: 0, version: 1 });
  await grow(previous, url, 15);
  await agree(...services, await startPrevious(url));
  await grow(ours, url, 15);
  await agree(...services);
});

it("what both programs have loaded is verified, and blocks of the previous one after ours are findings", async () => {
  const verified = async () =>
    withDatabase(async (database) => {
      const { undigested, findings } = await verify(database);
      return { undigested, findings: findings.listed.map(renderFinding) };
    });
  const ofFirst = { first: 1n, last: 35n, blocks: 35, entries: expect.any(Number) };
  expect(await verified()).toEqual({ undigested: [ofFirst], findings: [] });
  await grow(previous, url, 5);
  // Its blocks look as if somebody had removed their digests, and the digests of the tables are older than its rows.
  const undigested = [ofFirst, { first: 51n, last: 55n, blocks: 5, entries: expect.any(Number) }];
  const removed =
    "block 51, block: it has no digest, though block 50 has: digests were removed, or an earlier release loaded on";
  const stale = expect.stringMatching(/^(block \d+, )?market_data: it is not what was written/);
  expect(await verified()).toEqual({ undigested, findings: expect.arrayContaining([removed, stale]) });
  await grow(ours, url, 5);
  expect(await verified()).toEqual({ undigested, findings: expect.arrayContaining([removed, stale]) });
  await withConnection((c) => c.run("UPDATE account SET type = type + 1 WHERE account_id = 1"));
  expect((await verified()).findings).toContainEqual(expect.stringMatching(/^block 36, block: /));
  expect((await verified()).findings).toContainEqual(expect.stringMatching(/^block 56, block: /));
  await withConnection((c) => c.run("UPDATE account SET type = type - 1 WHERE account_id = 1"));
  expect(await withDatabase(renewDigests)).toBe(60n);
  expect(await verified()).toEqual({ undigested: [], findings: [] });
});

it("the past of books has a gap where the previous program has loaded, and begins anew after it", async () => {
  const places = () =>
    withConnection((c) =>
      c.query<{ history: bigint; stream: bigint }>(
        "SELECT history_sequence AS history, stream_sequence AS stream FROM progress",
      ),
    );
  const gaps = async () => {
    const sql = "SELECT COUNT(*) AS n, COUNT(DISTINCT market_id) AS markets FROM book_segment WHERE state = ?";
    return (await withConnection((c) => c.query(sql, [segmentStates.notKept])))[0];
  };
  const [{ n: all } = { n: 0n }] = await withConnection((c) =>
    c.query<{ n: bigint }>("SELECT COUNT(*) AS n FROM market"),
  );
  // So far the past before the first migration, and from blocks 51 to 55.
  expect(await gaps()).toEqual({ n: 2n * all, markets: all });
  const [before] = await places();
  expect(before?.history).toBe(before?.stream);
  await grow(previous, url, 5);
  expect((await places())[0]?.history).toBe(before?.history);
  await grow(ours, url, 5);
  expect(await gaps()).toEqual({ n: 3n * all, markets: all });
  const [after] = await places();
  expect(after?.history).toBe(after?.stream);
  const { findings } = await withDatabase((database) => verify(database));
  expect(findings.listed.filter(({ table }) => /book|trade$|history/.test(table) && table !== "last_trade")).toEqual(
    [],
  );
});

it("a store that the previous program begins on today's schema gets its name later", async () => {
  await Promise.all(services.splice(0).map((service) => service.drain()));
  await dropDatabase(url);
  await migrate(url, log);
  const again = new Network({ ...networkDefaults, seed: 10, chainId: "started-before", parties: 10 });
  const recording = Array.from({ length: 5 }, () => again.nextBlock());
  const source = sourceOf(Readable.from(recording, { objectMode: false }));
  await previous.load({ database: url, sources: [source], log });
  const names = () => withConnection((c) => c.query<{ store_id: string }>("SELECT store_id FROM progress"));
  expect(await names()).toEqual([{ store_id: "" }]);
  const service = await startNew(url);
  const before = await responses(service);
  expect(before).toMatchObject({ height: String(again.height) });
  await migrate(url, log);
  expect((await names())[0]?.store_id).toMatch(/^[0-9a-f]{24}$/);
  await expect.poll(() => responses(service).catch(() => undefined), { timeout: 10_000 }).toEqual(before);
});

it("a migration waits for transactions without holding up everybody else", async () => {
  const target = newDatabaseUrl();
  const [first] = readMigrations();
  if (first === undefined) throw new Error("there is no migration");
  await migrate(target.url, log, [first]);
  const database = openDatabase(target.url);
  let ended = false;
  const using = database.withTransaction(async (connection) => {
    await connection.query("SELECT * FROM progress");
    await new Promise((resolve) => setTimeout(resolve, 3_500));
    ended = true;
  });
  const migrating = migrate(target.url, log);
  let slowestMs = 0;
  while (!ended) {
    const askedAt = performance.now();
    await database.query("SELECT stream_sequence FROM progress WHERE id = 1");
    slowestMs = Math.max(slowestMs, performance.now() - askedAt);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  await using;
  expect(await migrating).toMatchObject({ applied: version - 1 });
  expect(slowestMs).toBeLessThan(2_000);
  await database.close();
  await dropDatabase(target.url);
});
