import { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { retain } from "../../src/ledger/retain.js";
import { load } from "../../src/loader/load.js";
import { fileSource, streamSource } from "../../src/loader/source.js";
import { type NetworkOptions, simulate } from "../../src/simulator/network.js";
import { candleRows } from "../../src/store/candle-table.js";
import type { Row } from "../../src/store/connection/column.js";
import { ServerConnection } from "../../src/store/connection/connection.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { firstChangesPart } from "../../src/store/history-table.js";
import { dropDatabase, migrate } from "../../src/store/migrate.js";
import { readProgress } from "../../src/store/progress-table.js";
import { readTableDigests, sumOf } from "../../src/store/table-digest-table.js";
import { readRows, writeRows } from "../../src/store/table-rows.js";
import { createLog } from "../../src/telemetry/log.js";
import { type Finding, renderFinding } from "../../src/verify/findings.js";
import { renewDigests } from "../../src/verify/renew-digests.js";
import { type VerifyReport, verify } from "../../src/verify/verify.js";
import { newDatabaseUrl } from "../support/database.js";
import { dump } from "../support/dump.js";
import { recordingPath } from "../support/partners.js";
import { RecordingBuilder } from "../support/recording.js";
import { thorough, tries } from "../support/tries.js";
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
    .block(progress.height + 1n, progress.timeNs + 1n, (r) => {
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

/** Drops the ledger entries before a block. */
async function retainFrom(database: Database, height: bigint): Promise<void> {
  const progress = await database.withConnection(readProgress);
  const [block] = await database.query<{ t: bigint }>("SELECT time_ns AS t FROM block WHERE height = ?", [height]);
  await retain(database, { keepNs: (progress?.timeNs ?? 0n) - (block?.t ?? 0n) });
}

/** Runs statements as somebody does who may write into the database. */
function change(database: Database, ...statements: readonly string[]): Promise<void> {
  return database.withTransaction(async (connection) => {
    for (const sql of statements) await connection.run(sql);
  });
}

/** A small store with rows in every table. */
async function fullStore(): Promise<{ readonly url: string; readonly database: Database }> {
  const store = await loaded({ ...options, markets: 3, ordersPerBlock: 6, entriesPerBlock: 6, blocks: 24 });
  await loadBytes(store.url, [await venueBlocks(store.database)]);
  await retainFrom(store.database, 5n);
  return store;
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
    await retainFrom(database, 9n);
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

describe("one fault in every place", () => {
  it("each row deleted, inserted or set to NULL in any table, and each column edited, is found", async () => {
    const { database } = await fullStore();
    const planter = await FaultPlanter.create(database, seed);
    const missed: string[] = [];
    const kinds = new Map<string, number>();
    for await (const { kind, table, before, after } of planter.each(thorough)) {
      const { findings } = await verify(database);
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
      if (findings.count === 0) missed.push(`${kind} ${table} ${JSON.stringify({ before, after }, plain)}`);
    }
    expect(missed).toEqual([]);
    expect(lines(await verify(database))).toEqual([]);
    expect(kinds.get("null")).toBeGreaterThanOrEqual(5);
    expect(kinds.get("edit")).toBeGreaterThan(150);
    expect(kinds.get("insert")).toBeGreaterThan(20);
    expect(kinds.get("delete")).toBeGreaterThanOrEqual(18);
  }, 600_000);
});

it.each([
  ["a digest", "UPDATE book_segment SET digest = REPEAT('7', 32) WHERE market_id = ? AND first_sequence = ?"],
  [
    "parts of changes",
    `INSERT INTO book_segment_part (market_id, first_sequence, part, body)
     SELECT market_id, first_sequence, ${firstChangesPart}, body FROM book_segment_part
     WHERE part = 0 AND market_id = ? AND first_sequence = ?`,
  ],
])("the newest segment of a market with %s, which only sealed ones have", async (_, sql) => {
  const { database } = await fullStore();
  const [newest] = await database.query<{ market: string; sequence: bigint; height: bigint }>(
    `SELECT s.market_id AS market, first_sequence AS sequence, height FROM book_segment s JOIN book_history h
     ON s.market_id = h.market_id AND first_sequence = newest_sequence WHERE keyframe_levels > 0`,
  );
  if (newest === undefined) throw new Error("no market has a book");
  const { market, sequence, height } = newest;
  await database.withTransaction((connection) => connection.run(sql, [market, sequence]));
  const sealed = `block ${height}, book_segment: market ${market}: its newest segment is sealed`;
  expect(lines(await verify(database))).toContain(sealed);
  await renewDigests(database);
  expect(lines(await verify(database))).toEqual([]);
});

const noDigests = "account_max = NULL, class_max = NULL, entries_digest = NULL, digest = NULL";

it("each number of each row of history_digest is compared", async () => {
  const { database } = await fullStore();
  const columns = ["row_count", "row_sum", "place_sum"] as const;
  const digests = await database.query("SELECT table_name, row_count, row_sum, place_sum FROM history_digest");
  expect(digests.length).toBeGreaterThan(5);
  const missed: string[] = [];
  for (const row of digests) {
    for (const column of columns) {
      const set = (value: unknown) =>
        change(database, `UPDATE history_digest SET ${column} = '${value}' WHERE table_name = '${row["table_name"]}'`);
      await set("7");
      if ((await verify(database)).findings.count === 0) missed.push(`${column} of ${row["table_name"]}`);
      await set(row[column]);
    }
  }
  expect(missed).toEqual([]);
  expect(lines(await verify(database))).toEqual([]);
});

describe("digests that are removed do not hide changes", () => {
  it("of the newest block: that is found, the tables are still compared, and the next load hides nothing", async () => {
    const { url, database } = await fullStore();
    await change(database, `UPDATE block SET ${noDigests} ORDER BY height DESC LIMIT 1`);
    const removed =
      "block 25, block: it has no digest, though block 24 has: digests were removed, or an earlier release loaded on";
    expect(lines(await verify(database))).toEqual([removed]);
    await change(database, "DELETE FROM last_trade LIMIT 1", "UPDATE market_data SET body = CONCAT(body, 'x') LIMIT 1");
    const found = async () => lines(await verify(database)).map((line) => line.replace(/^block \d+, (?!block)/, ""));
    const ofTables = [
      expect.stringMatching(/^market_data: it is not what was written/),
      expect.stringMatching(/^last_trade: it is not what was written: 1 rows in place of 2/),
    ];
    expect(await found()).toEqual([...ofTables, removed]);
    await change(database, "DELETE FROM table_digest WHERE table_name = 'market'");
    await loadBytes(url, [await venueBlocks(database)]);
    expect(await found()).toEqual(["table_digest: it has no row of market", ...ofTables, removed]);
  });

  it("of all blocks: the sums of the tables are still compared, and what was not checked is told", async () => {
    const { database } = await fullStore();
    await change(database, `UPDATE block SET ${noDigests}`, "UPDATE last_trade SET size = size + 1 LIMIT 1");
    expect(lines(await verify(database))).toContainEqual(expect.stringMatching(/last_trade: it is not what was/));
    await change(database, "DELETE FROM table_digest");
    const { undigested, checked } = await verify(database);
    expect(undigested).toEqual([{ first: 1n, last: 25n, blocks: 25, entries: expect.any(Number) }]);
    expect(undigested[0]?.entries).toBeGreaterThanOrEqual(checked.entries);
  });

  it("without digests: accounts and classes with number 0, and one that is missing", async () => {
    const { database } = await fullStore();
    await change(database, `UPDATE block SET ${noDigests}`, "DELETE FROM table_digest", "DELETE FROM ledger_retention");
    const insert = "INSERT INTO account SELECT 0, party_id, asset_id, 'new', type FROM account WHERE account_id = 1";
    await change(
      database,
      insert,
      "DELETE FROM entry_class WHERE class_id = 2",
      "UPDATE entry_class SET class_id = 0 WHERE class_id = 1",
    );
    const found = lines(await verify(database));
    expect(found).toContainEqual(expect.stringMatching(/^account: its \d+ rows are numbered from 0 to /));
    expect(found).toContainEqual(expect.stringMatching(/^entry_class: its \d+ rows are numbered from 0 to /));
  });

  it("a retention that is moved to hide entries, and one whose own digest is gone", async () => {
    const { database } = await fullStore();
    const move = (height: number) =>
      `UPDATE ledger_retention SET oldest_height = ${height}, oldest_time_ns = (SELECT time_ns FROM block WHERE height = ${height})`;
    await change(database, move(24));
    const moved = expect.stringMatching(/^ledger_retention: it is not what was written/);
    expect(lines(await verify(database))).toEqual([moved]);
    await retainFrom(database, 25n);
    expect(lines(await verify(database))).toEqual([moved]);
    await change(database, "DELETE FROM table_digest WHERE table_name = 'ledger_retention'");
    expect(lines(await verify(database))).toEqual([expect.stringMatching(/^ledger_retention: it is not .* 1 rows in/)]);
  });

  it("an entry whose last column holds the text of the next", async () => {
    const { database } = await fullStore();
    const text =
      "CONCAT_WS('\\t', id, from_account, to_account, class_id, transfer_type, time_ns, quantity, from_balance, to_balance)";
    const [row] = await database.query<{ id: bigint; t: string }>(
      `SELECT MAX(id) AS id, CAST(${text} AS CHAR CHARACTER SET ascii) AS t FROM ledger_entry GROUP BY id
       HAVING LENGTH(t) < 70 AND EXISTS (SELECT 1 FROM ledger_entry AS before_it WHERE before_it.id = ledger_entry.id - 1) LIMIT 1`,
    );
    if (row === undefined) throw new Error("no entry is short enough");
    await change(
      database,
      `UPDATE ledger_entry SET to_balance = CONCAT(to_balance, '\\n', '${row.t}') WHERE id = ${row.id - 1n}`,
      `DELETE FROM ledger_entry WHERE id = ${row.id}`,
    );
    expect(lines(await verify(database))).toEqual([expect.stringMatching(/ledger_entry: \d+ entries read as \d+$/)]);
  });
});

describe("digests that are made anew", () => {
  it("of right rows with wrong digests: nothing is found any more, it is told since when, and a load goes on", async () => {
    const { url, database } = await fullStore();
    await change(
      database,
      `UPDATE block SET ${noDigests} WHERE height = 3 OR height > 20`,
      "UPDATE block SET digest = 'x' WHERE height BETWEEN 7 AND 9",
      "UPDATE block SET account_max = 0, class_max = 0, entries_digest = '' WHERE height = 12",
      "UPDATE table_digest SET row_sum = '1' WHERE table_name = 'price_level'",
      "DELETE FROM table_digest WHERE table_name IN ('last_trade', 'ledger_retention')",
    );
    const before = await dump(url);
    const digested = /^(block|table_digest):/;
    expect((await verify(database)).findings.count).toBeGreaterThan(5);
    expect(await renewDigests(database)).toBe(25n);
    const report = await verify(database);
    expect(lines(report)).toEqual([]);
    expect(report).toMatchObject({ renewedHeight: 25n, undigested: [], checked: { blocks: 25 } });
    const rows = (all: string[]) => all.filter((line) => !digested.test(line) && !line.startsWith("progress:"));
    expect(rows(await dump(url))).toEqual(rows(before));
    await loadBytes(url, [await venueBlocks(database)]);
    expect(lines(await verify(database))).toEqual([]);
    expect(await verify(database)).toMatchObject({ renewedHeight: 25n, checked: { blocks: 26 } });
    const planter = await FaultPlanter.create(database, seed);
    for (let i = 0; i < tries(40); i++) {
      const fault = await planter.plant();
      expect((await verify(database)).findings.count, JSON.stringify(fault, plain)).toBeGreaterThan(0);
      await planter.takeBack(fault);
    }
    // Nor can it be hidden that they were renewed, or when.
    for (const sql of ["DELETE FROM table_digest", "UPDATE table_digest SET row_count = row_count + 1"]) {
      await change(database, `${sql} WHERE table_name = '(renewed)'`);
      expect(lines(await verify(database))).toEqual([expect.stringMatching(/^block 1, block: it, an account/)]);
      await renewDigests(database);
    }
  }, 120_000);

  it("of more candles than are read at once", async () => {
    const { database } = await fullStore();
    const prices = { open: "1", high: "1", low: "1", close: "1", volume: 1n };
    const candles = Array.from({ length: 25_000 }, (_, minute) => ({
      ...{ marketId: "many", periodSeconds: 60, startNs: BigInt(minute) * 60_000_000_000n, lastNs: 1n, ...prices },
      ...{ firstTrade: BigInt(minute), priceDecimals: 0n, sizeDecimals: 0n },
    }));
    await database.withTransaction((connection) => writeRows(connection, candleRows, candles));
    const lengths: number[] = [];
    const { query } = ServerConnection.prototype;
    vi.spyOn(ServerConnection.prototype, "query").mockImplementation(async function (this: ServerConnection, ...args) {
      const rows = await query.apply(this, args);
      lengths.push(rows.length);
      return rows as never;
    });
    try {
      await renewDigests(database);
    } finally {
      vi.restoreAllMocks();
    }
    expect(Math.max(...lengths)).toBe(10_000);
    await database.withConnection(async (connection) => {
      const digests = await readTableDigests(connection, "history_digest");
      expect(digests.get("candle")).toEqual(sumOf(candleRows, await readRows(connection, candleRows)));
    });
  });

  it("not while a loader writes, and a loader that did not is stopped by it", async () => {
    const { url, database } = await fullStore();
    const more = new Readable({ objectMode: false, read() {} });
    const source = { ...streamSource(more, "test"), followed: true };
    const standby = load({ database: url, sources: [source], log, standby: true });
    // A loader takes the turn with the next event that is needed.
    more.push(await venueBlocks(database));
    await expect.poll(() => database.query("SELECT 1 AS x FROM progress WHERE loader_id <> ''")).toHaveLength(1);
    await expect(renewDigests(database)).rejects.toThrow("a loader is loading into this database");
    more.push(null);
    await standby;
    // Without --standby nobody sees a loader that waits for input.
    const idle = new Readable({ objectMode: false, read() {} });
    idle.push(await venueBlocks(database));
    const loading = load({ database: url, sources: [{ ...streamSource(idle, "test"), followed: true }], log });
    await expect.poll(() => database.query("SELECT 1 AS x FROM block WHERE height = 27")).toHaveLength(1);
    await renewDigests(database);
    idle.push(await venueBlocks(database));
    await expect(loading).rejects.toThrow("as after marketd verify --renew-digests: load again");
    expect(lines(await verify(database))).toEqual([]);
  }, 60_000);

  it("one that is interrupted leaves findings, and the next one finishes it", async () => {
    const { database } = await loaded({ ...options, markets: 2, ordersPerBlock: 1, entriesPerBlock: 1, blocks: 600 });
    let isStopped = false;
    const stop = async () => {
      if (isStopped) return;
      isStopped = true;
      await change(database, "UPDATE progress SET loader_id = 'another'");
    };
    await expect(
      renewDigests(database, ({ blocks }) => {
        if (blocks > 0) void stop();
      }),
    ).rejects.toThrow("a loader has started");
    expect((await verify(database)).findings.count).toBeGreaterThan(0);
    expect(await renewDigests(database)).toBe(600n);
    expect(lines(await verify(database))).toEqual([]);
  }, 60_000);

  it("not of an empty database", async () => {
    const { database } = await newStore();
    expect(await renewDigests(database)).toBeUndefined();
  });
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
    const undigested = [{ first: 1n, last: 30n, blocks: 30 }];
    expect(await verify(database)).toMatchObject({ undigested, findings: { count: 0 } });
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
