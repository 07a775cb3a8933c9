import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { OrderBooks } from "../../src/domain/order-book.js";
import { writeBatch } from "../../src/loader/batch.js";
import { BlockFold } from "../../src/loader/block-fold.js";
import { FrameSplitter } from "../../src/loader/frames.js";
import { HistoryFold } from "../../src/loader/history-fold.js";
import { LedgerTextWriter } from "../../src/loader/ledger-text.js";
import { type LoadOptions, load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { readSumsStart, TableSums } from "../../src/loader/table-sums.js";
import { noTrades, TradeFold } from "../../src/loader/trade-fold.js";
import { ServerConnection } from "../../src/store/connection/connection.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { bookHistoryRows, readBookHistories } from "../../src/store/history-table.js";
import { dropDatabase, migrate } from "../../src/store/migrate.js";
import { addRow, noRows, rowHash, writeTableDigests } from "../../src/store/table-digest-table.js";
import { writeRows } from "../../src/store/table-rows.js";
import { openWriter } from "../../src/store/writer.js";
import { createLog } from "../../src/telemetry/log.js";
import { renderFinding } from "../../src/verify/findings.js";
import { verify } from "../../src/verify/verify.js";
import { newDatabaseUrl } from "../support/database.js";
import { dump, emptyStore } from "../support/dump.js";
import { inChunks } from "../support/recording.js";
import { level, VenueRecording } from "../support/venue-recording.js";

const log = createLog("silent");
const { url } = newDatabaseUrl();
let store: Database;

beforeAll(async () => {
  await migrate(url, log);
  store = openDatabase(url, { connectionsMax: 3 });
});
beforeEach(() => emptyStore(store));
afterEach(() => {
  vi.restoreAllMocks();
});
afterAll(async () => {
  await store.close();
  await dropDatabase(url);
});

function loadBytes(bytes: Uint8Array, options: Partial<LoadOptions> = {}) {
  return load({ database: url, sources: [streamSource(inChunks(bytes), "test")], log, ...options });
}

async function findings(): Promise<string[]> {
  return (await verify(store)).findings.listed.map(renderFinding);
}

const second = 1_000_000_000n;
const levels = 200;
/** Blocks that fill a segment, about. */
const blocksPerSegment = 6;

/** Blocks that each change every level of every market. */
function busyVenue(segments: number, ...marketIds: string[]): VenueRecording {
  const venue = new VenueRecording();
  const asks = [level("1000", "1")];
  for (const marketId of marketIds) venue.define({ marketId }).snapshot({ marketId, asks });
  for (let block = 1; block <= segments * blocksPerSegment; block++) {
    const bids = Array.from({ length: levels }, (_, index) => level(`${10 + index}`, `${block}`));
    venue.tell(...marketIds.map((marketId) => ({ case: "bookDelta" as const, value: { marketId, bids } })));
  }
  return venue;
}

/** Lets the first queries with this text pass, and fails the one after them as if the server shut down. */
function failOnce(text: string, passing: number): { readonly failures: number } {
  const outcome = { failures: 0 };
  let seen = 0;
  const { query } = ServerConnection.prototype;
  vi.spyOn(ServerConnection.prototype, "query").mockImplementation(function (this: ServerConnection, sql, parameters) {
    if (!sql.includes(text) || seen++ !== passing) return query.call(this, sql, parameters) as never;
    outcome.failures++;
    return Promise.reject(Object.assign(new Error("shutdown in progress"), { code: "ER_SERVER_SHUTDOWN" }));
  });
  return outcome;
}

/** Markets whose newest segment is missing. */
const missingNewest = `SELECT h.market_id FROM book_history h LEFT JOIN book_segment s
  ON s.market_id = h.market_id AND s.first_sequence = h.newest_sequence WHERE s.market_id IS NULL`;

test("pruning names the newest segment of its transaction, although later blocks have started another", async () => {
  const venue = busyVenue(20, "m");
  const frames = [...new FrameSplitter("test").frames(venue.bytes())];
  const writer = await openWriter(url);
  try {
    const books = new OrderBooks();
    const start = { historySequence: 0n, pasts: [], digests: new Map(), gap: undefined };
    const history = new HistoryFold(books, start, 10n * second);
    const trades = new TradeFold(noTrades);
    const fold = new BlockFold({
      ...{ progress: undefined, position: 0, books, history, trades },
      ledger: new LedgerTextWriter([], []),
    });
    const sums = new TableSums(await writer.transaction((connection) => readSumsStart(connection, undefined)));
    const half = frames.length / 2;
    for (const frame of frames.slice(0, half)) fold.apply(frame);
    const batch = fold.take();
    for (const frame of frames.slice(half, half + 9 * blocksPerSegment)) fold.apply(frame);
    const options = { localInfile: false, loaderId: "", newestDigest: undefined, sumsAfter: sums.after };
    await writer.transaction((connection) =>
      writeBatch(connection, batch, undefined, { ...options, prunePast: history.prune, pruneTrades: trades.prune }),
    );
    expect(batch.past?.pruned).toHaveLength(1);
  } finally {
    writer.close();
  }
  expect(await store.query(missingNewest)).toEqual([]);
  expect(await findings()).toEqual([]);
  // Another loader goes on, as after a kill.
  await loadBytes(venue.bytes(), { keepBooks: 10n * second });
  expect(await findings()).toEqual([]);
});

describe("a newest segment that is missing", () => {
  test("was never written by an earlier release: the next load goes on from the segment before", async () => {
    const venue = busyVenue(6, "m", "other");
    // Each block of two markets has four frames. The last one of this part is within a segment.
    const part = venue.frames.length - 4 * (3 * blocksPerSegment - 2);
    await loadBytes(venue.bytes());
    const whole = await dump(url);
    const later = await store.withConnection((connection) => readBookHistories(connection, "m"));
    await emptyStore(store);
    await loadBytes(Buffer.concat(venue.frames.slice(0, part)));
    await store.withTransaction(async (connection) => {
      await writeRows(connection, bookHistoryRows, later);
      const rows = (await readBookHistories(connection)).map((row) => bookHistoryRows.values(row));
      const sum = rows.reduce((all, row) => addRow(all, rowHash(bookHistoryRows.table, row), 0n), noRows);
      await writeTableDigests(connection, new Map([[bookHistoryRows.table, sum]]), "history_digest");
    });
    expect(await store.query(missingNewest)).toEqual([{ market_id: "m" }]);
    expect(await findings()).toContainEqual(
      expect.stringMatching(/^book_segment: market m: its newest segment \d+ is missing$/),
    );
    // A block that begins no segment.
    await loadBytes(Buffer.concat(venue.frames.slice(0, part + 4)));
    expect(await store.query(missingNewest)).toEqual([]);
    expect(await findings()).toEqual([]);
    await loadBytes(venue.bytes());
    expect(await dump(url)).toEqual(whole);
  });

  test("was lost: no load goes on", async () => {
    const venue = busyVenue(2, "m");
    await loadBytes(venue.bytes());
    await store.withConnection((connection) => connection.run("DELETE FROM book_segment WHERE digest IS NULL"));
    await expect(loadBytes(venue.tell().bytes())).rejects.toThrow("a segment of market m is missing");
  });
});

/** What is stored is verified, and is what two loads give that nothing disturbed: of the frames up to `end`, and of all. */
async function expectAsUndisturbed(venue: VenueRecording, end: number, options: Partial<LoadOptions>): Promise<void> {
  expect(await findings()).toEqual([]);
  const found = await dump(url);
  await emptyStore(store);
  vi.restoreAllMocks();
  await loadBytes(Buffer.concat(venue.frames.slice(0, end)));
  await loadBytes(venue.bytes(), options);
  expect(found).toEqual(await dump(url));
}

describe("a connection that is lost between the reads of pruning", () => {
  test("of books: the retry drops the segments of every market, and the digests stay right", async () => {
    const venue = busyVenue(8, "m1", "m2");
    await loadBytes(venue.bytes());
    venue.tell();
    const options = { keepBooks: 20n * second };
    const outcome = failOnce("FROM book_segment WHERE market_id = ? AND first_sequence >= ?", 1);
    await loadBytes(venue.bytes(), options);
    expect(outcome.failures).toBe(1);
    await expectAsUndisturbed(venue, -2, options);
  });

  const trade = (marketId: string, id: string) => {
    return { case: "trade" as const, value: { marketId, id, price: "1", size: "1" } };
  };

  test.each([
    ["the trades", "FROM trade WHERE id >= ? AND id < ? ORDER BY id LIMIT"],
    ["their candles", "JOIN (SELECT id AS trade_id"],
  ])("of trades, before %s are read: the retry drops them all", async (_name, text) => {
    const venue = new VenueRecording().define({ marketId: "m1" }).define({ marketId: "m2" });
    for (let block = 0; block < 40; block++) {
      venue.tell(trade("m1", `a${block}`), trade("m2", `b${block}`), trade("m1", `c${block}`));
    }
    await loadBytes(venue.bytes());
    // Each of these blocks drops the trades of one more second.
    venue.tell().tell();
    const options = { keepTrades: 10n * second, blockByBlock: true };
    const outcome = failOnce(text, 1);
    await loadBytes(venue.bytes(), options);
    expect(outcome.failures).toBe(1);
    await expectAsUndisturbed(venue, -4, options);
  });
});
