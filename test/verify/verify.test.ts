import { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { load } from "../../src/loader/load.js";
import { fileSource, streamSource } from "../../src/loader/source.js";
import { type NetworkOptions, simulate } from "../../src/simulator/network.js";
import type { Row } from "../../src/store/column.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { dropDatabase } from "../../src/store/drop-database.js";
import { migrate } from "../../src/store/migrate.js";
import { readProgress } from "../../src/store/progress-table.js";
import { createLog } from "../../src/telemetry/log.js";
import { type Finding, renderFinding } from "../../src/verify/findings.js";
import { type VerifyReport, verify } from "../../src/verify/verify.js";
import { newDatabaseUrl } from "../support/database.js";
import { recordingPath } from "../support/partners.js";
import { RecordingBuilder } from "../support/recording.js";
import { tries } from "../support/tries.js";
import { level } from "../support/venue-recording.js";
import { type Fault, FaultPlanter } from "./faults.js";

/** Faults that are planted: 1,000 in the long form, `MARKETD_FAULTS=1000 npm test -- test/verify`. */
const faults = Number(process.env["MARKETD_FAULTS"] ?? tries(120));
const seed = Number(process.env["MARKETD_FAULTS_SEED"] ?? 1);
const log = createLog("silent");
const options = { seed: 5, markets: 6, parties: 12, ordersPerBlock: 12, entriesPerBlock: 15 } as const;

const opened: { readonly url: string; readonly database: Database }[] = [];

async function newStore(): Promise<{ readonly url: string; readonly database: Database }> {
  const { url } = newDatabaseUrl();
  await migrate(url, log);
  const store = { url, database: openDatabase(url, { connectionsMax: 3 }) };
  opened.push(store);
  return store;
}

afterAll(async () => {
  for (const { url, database } of opened) {
    await database.close();
    await dropDatabase(url);
  }
});

async function loadBytes(url: string, bytes: Iterable<Uint8Array>, more: object = {}): Promise<void> {
  const source = streamSource(Readable.from(bytes, { objectMode: false }), "test");
  await load({ database: url, sources: [source], log, ...more });
}

async function loaded(network: NetworkOptions & { readonly blocks: number }, more: object = {}) {
  const store = await newStore();
  await loadBytes(store.url, simulate(network), more);
  return store;
}

/** Two markets of a venue that publishes levels, in a block after those that were loaded. */
async function venueBlocks(database: Database): Promise<Buffer> {
  const progress = await database.withConnection(readProgress);
  if (progress === undefined) throw new Error("nothing was loaded");
  const recording = new RecordingBuilder();
  recording.chainId = progress.chainId;
  recording.sequence = progress.streamSequence + 1n;
  return recording
    .block(progress.height + 1n, progress.blockTimeNs + 1n, (r) => {
      for (const [marketId, priceDecimals] of [
        ["m1", 2],
        ["m2", 3],
      ] as const) {
        r.venue({ case: "marketDefinition", value: { marketId, priceDecimals, sizeDecimals: 3 } });
        const bids = [level("10.25", "1.5", 4n), level("10", "2")];
        r.venue({ case: "bookSnapshot", value: { marketId, bids, asks: [level("10.5", "1", 2n)] } });
      }
    })
    .bytes();
}

function lines({ findings }: VerifyReport): string[] {
  return findings.listed.map(renderFinding);
}

describe("planted faults", () => {
  let database: Database;
  let planter: FaultPlanter;
  let blocks: Row[];

  beforeAll(async () => {
    const store = await loaded({ ...options, blocks: 110 });
    ({ database } = store);
    await loadBytes(store.url, [await venueBlocks(database)]);
    planter = await FaultPlanter.create(database, seed);
    blocks = await database.query("SELECT height, stream_sequence, account_max, class_max FROM block ORDER BY height");
    expect(lines(await verify(database))).toEqual([]);
  });

  /** Blocks of which one has to be named; none: the fault belongs to no block, or to several. */
  function blocksOf({ kind, table, before, after, columns }: Fault): bigint[] {
    const rows = [...before, ...after];
    if (table === "ledger_entry") return rows.map((row) => (row["id"] as bigint) >> 24n);
    if (table === "block") return rows.flatMap((row) => [row["height"] as bigint, (row["height"] as bigint) + 1n]);
    if (table === "account" || table === "entry_class") {
      const [number, max] = table === "account" ? ["account_id", "account_max"] : ["class_id", "class_max"];
      const numbers = rows.map((row) => row[number] as number);
      return numbers.flatMap((n) => {
        const block = blocks.find((each) => (each[max] as number) >= n);
        return block === undefined ? [] : [block["height"] as bigint];
      });
    }
    if (kind === "swap" || columns.includes("changed_sequence")) return [];
    const places = rows.flatMap((row) => (row["changed_sequence"] === undefined ? [] : [row["changed_sequence"]]));
    if (new Set(places).size !== 1) return [];
    const block = blocks.find((each) => (each["stream_sequence"] as bigint) >= (places[0] as bigint));
    return block === undefined ? [] : [block["height"] as bigint];
  }

  it(`${faults} of ${faults} are found, and the block of each is named where it has one`, async () => {
    const kinds = new Map<string, number>();
    let lastRows = 0;
    let named = 0;
    for (let i = 0; i < faults; i++) {
      const fault = await planter.plant();
      const { findings } = await verify(database);
      const found = `${JSON.stringify(findings.listed, plain)} after ${JSON.stringify(fault, plain)}`;
      expect(findings.count, found).toBeGreaterThan(0);
      const expected = blocksOf(fault);
      if (expected.length > 0) {
        const isNamed = findings.listed.some(({ block }: Finding) => block !== undefined && expected.includes(block));
        expect(isNamed, `one of blocks ${expected} in ${found}`).toBe(true);
        named++;
      }
      await planter.takeBack(fault);
      kinds.set(`${fault.kind} ${fault.table}`, (kinds.get(`${fault.kind} ${fault.table}`) ?? 0) + 1);
      if (fault.isLastRow) lastRows++;
    }
    expect(lines(await verify(database))).toEqual([]);
    expect(kinds.size).toBeGreaterThan(Math.min(20, faults / 3));
    expect(lastRows).toBeGreaterThan(faults / 8);
    expect(named).toBeGreaterThan(faults / 4);
  }, 600_000);
});

function plain(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? `${value}` : value;
}

describe("nothing is found", () => {
  it("in a simulated network, block by block and with INSERT, or in pieces of any size by several loaders", async () => {
    const network = { ...options, seed: 6, blocks: 130 };
    const single = await loaded(network, { blockByBlock: true, localInfile: false });
    expect(lines(await verify(single.database))).toEqual([]);
    const pieces = await newStore();
    const all = [...simulate(network)];
    for (const end of [1, 2, 30, 31, 100, 130]) {
      await loadBytes(pieces.url, all.slice(0, end), { transactionRowsMax: end });
      expect(lines(await verify(pieces.database))).toEqual([]);
    }
    const sums = (database: Database) => database.query("SELECT * FROM table_digest ORDER BY table_name");
    const digests = (database: Database) => database.query("SELECT height, digest FROM block ORDER BY height");
    expect(await sums(pieces.database)).toEqual(await sums(single.database));
    expect(await digests(pieces.database)).toEqual(await digests(single.database));
  });

  it("where a height comes twice, also when another loader goes on there", async () => {
    const recording = new RecordingBuilder();
    const from = { assetId: "asset", type: 10 };
    const deposit = (amount: string, toBalance: string, owner: string) => {
      return { from, to: { assetId: "asset", type: 4, owner }, amount, type: 19, fromBalance: "0", toBalance };
    };
    recording.block(1, 10n, (r) => r.transfer(deposit("5", "5", "alice")));
    const cut = recording.frames.length;
    recording.block(1, 10n, (r) => r.transfer(deposit("7", "7", "bob"), deposit("1", "6", "alice")));
    recording.block(2, 11n, (r) => r.transfer(deposit("100000000000000000000", "100000000000000000006", "alice")));
    const [once, again] = [await newStore(), await newStore()];
    await loadBytes(once.url, recording.frames);
    await loadBytes(again.url, recording.frames.slice(0, cut));
    expect(lines(await verify(again.database))).toEqual([]);
    await loadBytes(again.url, recording.frames);
    for (const { database } of [once, again]) {
      const report = await verify(database);
      expect(lines(report)).toEqual([]);
      expect(report.checked).toEqual({ blocks: 2, entries: 4, height: 2n });
    }
  });

  it("in an empty database", async () => {
    const { database } = await newStore();
    expect(await verify(database)).toMatchObject({ progress: undefined, findings: { count: 0 } });
  });

  it.skipIf(recordingPath() === undefined)("in the recording of a real network", async () => {
    const { url, database } = await newStore();
    await load({ database: url, sources: [await fileSource(recordingPath() ?? "")], log });
    const report = await verify(database);
    expect(lines(report)).toEqual([]);
    expect(report).toMatchObject({ checked: { blocks: 5_001, entries: 322, height: 5_001n }, undigested: [] });
  });
});

describe("what the network itself states wrongly is found without digests", () => {
  it("balances that do not follow from their entries, and by how much an asset grew", async () => {
    const store = await newStore();
    const recording = new RecordingBuilder();
    const transfer = (amount: string, fromBalance: string, toBalance: string) => ({ amount, fromBalance, toBalance });
    recording.block(1, 10n, (r) => r.transfer(transfer("5", "95", "5"), transfer("1", "94", "7")));
    recording.block(2, 11n, (r) => r.transfer(transfer("10", "84", "17")));
    await loadBytes(store.url, recording.frames);
    expect(lines(await verify(store.database))).toEqual([
      "block 1, ledger_entry: entry 16777217 states a balance of account 2 that is off by 1",
      "ledger_entry: of asset asset 1 appeared between entries",
    ]);
  });

  it("a level that is missing, of a market whose id has spaces", async () => {
    const { url, database } = await newStore();
    const recording = new RecordingBuilder();
    const marketId = "gold in euro";
    recording.block(1, 10n, (r) => r.market(marketId).order({ id: "a", marketId, price: "5", remaining: 3n }));
    await loadBytes(url, recording.frames);
    await database.withConnection((connection) => connection.run("DELETE FROM price_level"));
    const found = lines(await verify(database));
    expect(found).toContain(
      "price_level: market gold in euro, side 1, price 5: there is no level, and 1 orders with 3",
    );
  });

  it("also where a program without digests wrote all there is, which is told", async () => {
    const { database } = await loaded({ ...options, blocks: 30 });
    await database.withConnection(async (connection) => {
      await connection.run("DELETE FROM table_digest");
      await connection.run(
        "UPDATE block SET account_max = NULL, class_max = NULL, entries_digest = NULL, digest = NULL",
      );
    });
    expect(await verify(database)).toMatchObject({ undigested: [{ first: 1n, last: 30n }], findings: { count: 0 } });
    const changes = [
      "UPDATE ledger_entry SET from_balance = from_balance + 1 WHERE id = (12 << 24) + 3",
      "DELETE FROM ledger_entry WHERE id = (12 << 24) + 4",
      "UPDATE price_level SET volume = volume + 1 WHERE volume > 0 LIMIT 1",
      "DELETE FROM account WHERE account_id = 7",
    ];
    let count = 0;
    for (const sql of changes) {
      await database.withConnection((connection) => connection.run(sql));
      const { findings } = await verify(database);
      expect(findings.count, sql).toBeGreaterThan(count);
      count = findings.count;
    }
  });
});
