import { isDeepStrictEqual } from "node:util";
import {
  type BookUpdate,
  decodeKeyframe,
  decodeSegment,
  decodeUpdate,
  sealedDigest,
  startDigest,
} from "../domain/book-history.js";
import { isGone } from "../domain/depth-book.js";
import { groupBy } from "../domain/group-by.js";
import type { ChangedLevel } from "../domain/order-book.js";
import { candleRows } from "../store/candle-table.js";
import type { Row } from "../store/connection/column.js";
import type { Connection, Parameter } from "../store/connection/connection.js";
import type { Database } from "../store/database.js";
import {
  type BookChangeRow,
  type BookHistoryRow,
  bookChangeRows,
  bookHistoryRows,
  digestedPast,
  firstChangesPart,
  fromParts,
  historySequenceRows,
  pastTradeRows,
  readBookChanges,
  readBookHistories,
  readHistorySequence,
  readSegmentParts,
  readSegments,
  type SegmentPartRow,
  type SegmentRow,
  segmentRows,
  segmentRowText,
  segmentStates,
} from "../store/history-table.js";
import { assetRows } from "../store/market-table.js";
import type { Progress } from "../store/progress-table.js";
import {
  addSum,
  noRows,
  type RowSum,
  readTableDigests,
  sumOf,
  writeTableDigests,
} from "../store/table-digest-table.js";
import { readInOrder, readRows, type Table, writeRows } from "../store/table-rows.js";
import { tradeProgressRows } from "../store/trade-table.js";
import { checkCandles, checkTradesNow, readTradeSnapshot, sumCandles, type TradeSnapshot } from "./candle-check.js";
import { Findings, straysNamedMax } from "./findings.js";
import { type Books, compare, readSums } from "./table-check.js";

const segmentsPerQuery = 100;
const tradesPerQuery = 10_000;

/** The past as it was in one snapshot. What is sealed does not change later, but the oldest of it may go. */
export interface PastSnapshot {
  readonly histories: readonly BookHistoryRow[];
  readonly changes: ReadonlyMap<string, readonly BookChangeRow[]>;
  /** Whether it is written up to the live books. */
  readonly isCurrent: boolean;
  readonly trades: TradeSnapshot;
}

/** What can change is read and checked in the snapshot of the progress. */
export async function checkPastNow(
  connection: Connection,
  progress: Progress,
  findings: Findings,
): Promise<PastSnapshot> {
  const historySequence = await readHistorySequence(connection);
  const digests = await readTableDigests(connection, "history_digest");
  const pastTables = digestedPast.map(({ table }) => table);
  const isKept = historySequence > 0n || pastTables.some((table) => digests.has(table));
  const histories = await readBookHistories(connection);
  const changes = await readBookChanges(connection);
  const check = (table: Table, rows: readonly (readonly Parameter[])[], unwritten: RowSum | undefined) => {
    const written = digests.get(table.table) ?? unwritten;
    return compare(connection, table.table, sumOf(table, rows), written, { progress, findings }, "history_digest");
  };
  // Without any asset there was no reason to write it.
  await check(assetRows, await readRows(connection, assetRows), noRows);
  await check(bookHistoryRows, histories.map(bookHistoryRows.values), isKept ? undefined : noRows);
  await check(bookChangeRows, changes.map(bookChangeRows.values), isKept ? undefined : noRows);
  if (isKept) await check(historySequenceRows, [historySequenceRows.values(historySequence)], undefined);
  const tradeProgress = await readRows(connection, tradeProgressRows);
  const keepsTrades = tradeProgress.length > 0 || digests.has(tradeProgressRows.table);
  if (keepsTrades) await check(tradeProgressRows, tradeProgress, undefined);
  const ofTrades = [pastTradeRows.table, tradeProgressRows.table, candleRows.table];
  const tables: string[] = [...pastTables, assetRows.table, ...ofTrades];
  for (const table of digests.keys()) {
    if (!tables.includes(table))
      findings.add("history_digest", undefined, `it has a row of ${table}, which has no digest`);
  }
  await findStrays(connection, histories, findings);
  await findSealed(connection, findings);
  return {
    histories,
    changes: groupBy(changes, ({ marketId }) => marketId),
    isCurrent: historySequence === progress.streamSequence,
    trades: await checkTradesNow(connection, findings),
  };
}

/** Segments, and parts of them, before the oldest or after the newest of their market, or of no market. */
async function findStrays(
  connection: Connection,
  histories: readonly BookHistoryRow[],
  findings: Findings,
): Promise<void> {
  const known = new Set(histories.map(({ marketId }) => marketId));
  for (const table of ["book_segment", "book_segment_part"]) {
    const rows = await connection.query<{ marketId: string }>(`SELECT DISTINCT market_id AS marketId FROM ${table}`);
    const unknown = rows.filter(({ marketId }) => !known.has(marketId));
    for (const { marketId } of unknown) findings.add(table, undefined, `market ${marketId} has no past`);
    for (const { marketId, oldestSequence, newestSequence } of histories) {
      const strays = await connection.query<{ sequence: bigint }>(
        `SELECT first_sequence AS sequence FROM ${table}
         WHERE market_id = ? AND (first_sequence < ? OR first_sequence > ?) LIMIT ${straysNamedMax}`,
        [marketId, oldestSequence, newestSequence],
      );
      for (const { sequence } of strays) {
        findings.add(table, undefined, `market ${marketId} has a segment at ${sequence}, outside of its past`);
      }
    }
  }
}

/** Adds a finding for each newest segment that has a digest or parts of changes: only sealed segments have those. */
async function findSealed(connection: Connection, findings: Findings): Promise<void> {
  const rows = await connection.query<{ marketId: string; height: bigint }>(
    `SELECT s.market_id AS marketId, s.height FROM book_history h JOIN book_segment s
       ON s.market_id = h.market_id AND s.first_sequence = h.newest_sequence
     WHERE s.digest IS NOT NULL OR EXISTS (SELECT 1 FROM book_segment_part p WHERE p.market_id = s.market_id
       AND p.first_sequence = s.first_sequence AND p.part >= ${firstChangesPart})`,
  );
  for (const { marketId, height } of rows) {
    findings.add("book_segment", height, `market ${marketId}: its newest segment is sealed`);
  }
}

/** Checks every segment that the snapshot knows of. The loader may run meanwhile. */
export async function checkPast(
  connection: Connection,
  past: PastSnapshot,
  books: Books,
  findings: Findings,
): Promise<void> {
  for (const history of past.histories) {
    const { marketId } = history;
    const live = past.isCurrent ? (books.get(marketId) ?? []) : undefined;
    await new MarketCheck(connection, history, past.changes.get(marketId) ?? [], live, findings).run();
  }
}

/**
 * Checks every trade and candle of a snapshot. The loader may add some meanwhile. It may drop some too: so what differs is
 * read again in one snapshot, which the server has to keep for so long. Where trades were dropped already, only that is done.
 */
export async function checkTrades(
  database: Database,
  snapshot: TradeSnapshot,
  progress: Progress,
  findings: Findings,
): Promise<void> {
  const check = async (connection: Connection, trades: TradeSnapshot, found: Findings) => {
    await checkCandles(connection, trades, found);
    const { lastTrade, tradeSum } = trades;
    if (tradeSum === undefined) return;
    const sum = await sumTrades(connection, lastTrade);
    await compare(connection, pastTradeRows.table, sum, tradeSum, { progress, findings: found }, "history_digest");
  };
  if (!snapshot.isPruned) {
    const found = new Findings();
    await database.withConnection((connection) => check(connection, snapshot, found));
    if (found.count === 0) return;
  }
  await database.withSnapshot(async (connection) => check(connection, await readTradeSnapshot(connection), findings));
}

/** What all trades up to one add up to. */
async function sumTrades(connection: Connection, lastTrade: bigint): Promise<RowSum> {
  let sum = noRows;
  for await (const rows of readInOrder<Row>(connection, pastTradeRows, tradesPerQuery, 0n, lastTrade)) {
    sum = addSum(sum, sumOf(pastTradeRows, rows.map(Object.values)));
  }
  return sum;
}

/** A stored segment. */
export interface StoredSegment {
  readonly row: SegmentRow;
  /** Undefined: its parts are not what was deflated. */
  readonly keyframe: Buffer | undefined;
  readonly content: Buffer | undefined;
  /** What its digests have to be: as it began, and once it is sealed. */
  readonly start: Buffer;
  readonly sealed: Buffer;
}

/**
 * The segments of a market up to its newest one. Each is chained to the digest that `digestOf` gives for the one before.
 * Where the loader prunes meanwhile, it goes on with what is the oldest then.
 */
export async function* readPastOf(
  connection: Connection,
  { marketId, oldestSequence, oldestDigest, newestSequence }: BookHistoryRow,
  digestOf: (segment: StoredSegment) => Uint8Array,
): AsyncGenerator<StoredSegment> {
  let next = oldestSequence;
  let before = oldestDigest;
  for (;;) {
    const rows = await readSegments(connection, marketId, next, segmentsPerQuery + 1);
    const [now] = await readBookHistories(connection, marketId);
    if (now !== undefined && now.oldestSequence > next && now.oldestSequence <= newestSequence) {
      next = now.oldestSequence;
      before = now.oldestDigest;
      continue;
    }
    for (const [index, row] of rows.slice(0, segmentsPerQuery).entries()) {
      if (row.firstSequence > newestSequence) return;
      const end = row.firstSequence === newestSequence ? row.firstSequence + 1n : rows[index + 1]?.firstSequence;
      const segment = toSegment(row, await readSegmentParts(connection, row, end ?? row.firstSequence + 1n), before);
      yield segment;
      before = digestOf(segment);
    }
    const following = rows[segmentsPerQuery];
    if (following === undefined) return;
    next = following.firstSequence;
  }
}

function toSegment(row: SegmentRow, parts: readonly SegmentPartRow[], before: Uint8Array): StoredSegment {
  const isOurs = parts.every(({ firstSequence }) => firstSequence === row.firstSequence);
  const contentFrom = (first: number, end: number): Buffer | undefined => {
    const ours = parts.filter(({ part }) => part >= first && part < end);
    if (!isOurs || ours.some(({ part }, index) => part !== first + index)) return undefined;
    try {
      return ours.length === 0 ? Buffer.alloc(0) : fromParts(ours.map(({ body }) => body));
    } catch {
      return undefined;
    }
  };
  const keyframe = contentFrom(0, firstChangesPart);
  const content = contentFrom(firstChangesPart, Number.POSITIVE_INFINITY);
  const start = startDigest(before, segmentRowText(row), keyframe ?? Buffer.alloc(0));
  return { row, keyframe, content, start, sealed: sealedDigest(start, content ?? Buffer.alloc(0)) };
}

/** Volumes and numbers of orders by side and price. */
type Book = Map<string, string>;

/** Checks the segments of a market against their digests, and against each other. */
class MarketCheck {
  constructor(
    private readonly connection: Connection,
    private readonly history: BookHistoryRow,
    private readonly changes: readonly BookChangeRow[],
    private readonly live: readonly ChangedLevel[] | undefined,
    private readonly findings: Findings,
  ) {}

  async run(): Promise<void> {
    const { marketId, newestSequence } = this.history;
    let book: Book | undefined;
    let last: SegmentRow | undefined;
    for await (const segment of readPastOf(this.connection, this.history, ({ row, sealed }) => row.digest ?? sealed)) {
      const { row } = segment;
      last = row;
      const problem = this.#problemOf(segment, book);
      book = typeof problem === "string" ? undefined : problem;
      if (typeof problem === "string" && !(await this.#isPruned(row))) {
        this.findings.add("book_segment", row.height, `market ${marketId}, segment ${row.firstSequence}: ${problem}`);
      }
    }
    // The loader may have dropped it during a long verification.
    if (last?.firstSequence === newestSequence || (await this.#isPruned({ firstSequence: newestSequence }))) return;
    this.findings.add("book_segment", undefined, `market ${marketId}: its newest segment ${newestSequence} is missing`);
  }

  /** The book at the end of the segment, given that at its start by the one before; or what is wrong. */
  #problemOf(
    { row, keyframe, content, start, sealed }: StoredSegment,
    before: Book | undefined,
  ): Book | string | undefined {
    const { newestSequence, newestDigest } = this.history;
    const isNewest = row.firstSequence === newestSequence;
    const found = isNewest ? start : sealed;
    const written = isNewest ? newestDigest : row.digest;
    if (keyframe === undefined || content === undefined) return "a part is not what was written";
    if (written === undefined || !found.equals(written)) return "it is not what was written, or the one before it";
    if (row.state !== segmentStates.continued && row.state !== segmentStates.whole) return undefined;
    try {
      const book = toBook(decodeKeyframe(keyframe));
      if (row.state === segmentStates.continued && before !== undefined && !isDeepStrictEqual(before, book)) {
        return "its keyframe is not the book that the changes before it lead to";
      }
      for (const update of isNewest ? this.#updates() : decodeSegment(row, content)) fold(book, update);
      const isLive = isNewest && this.live !== undefined;
      return isLive && !isDeepStrictEqual(book, toBook(this.live)) ? "its changes do not lead to the live book" : book;
    } catch (error) {
      return (error as Error).message;
    }
  }

  *#updates(): Generator<BookUpdate> {
    for (const { streamSequence, body } of this.changes) yield decodeUpdate(streamSequence, body);
  }

  async #isPruned({ firstSequence }: Pick<SegmentRow, "firstSequence">): Promise<boolean> {
    const [now] = await readBookHistories(this.connection, this.history.marketId);
    return now !== undefined && firstSequence < now.oldestSequence;
  }
}

function toBook(levels: readonly ChangedLevel[]): Book {
  const book: Book = new Map();
  fold(book, { levels });
  return book;
}

function fold(book: Book, { levels }: Pick<BookUpdate, "levels">): void {
  for (const level of levels) {
    const key = `${level.side} ${level.price}`;
    if (isGone(level)) book.delete(key);
    else book.set(key, `${level.volume} ${level.numberOfOrders}`);
  }
}

/** Makes the digests of the past and of assets anew; `write` runs its statements as the only writer. */
export async function renewPast(
  connection: Connection,
  write: (statements: (connection: Connection) => Promise<void>) => Promise<void>,
): Promise<void> {
  const isKept = (await readHistorySequence(connection)) > 0n;
  if (isKept) await renewSegments(connection, write);
  const sums = await readSums(connection, [assetRows, tradeProgressRows, ...(isKept ? digestedPast : [])]);
  sums.set(candleRows.table, await sumCandles(connection));
  const [last] = await connection.query<{ id: bigint | null }>("SELECT MAX(id) AS id FROM trade");
  sums.set(pastTradeRows.table, await sumTrades(connection, last?.id ?? 0n));
  await write(async (writer) => {
    await writer.run("DELETE FROM history_digest");
    await writeTableDigests(writer, sums, "history_digest");
  });
}

async function renewSegments(
  connection: Connection,
  write: (statements: (connection: Connection) => Promise<void>) => Promise<void>,
): Promise<void> {
  for (const history of await readBookHistories(connection)) {
    let rows: SegmentRow[] = [];
    let newestDigest = history.newestDigest;
    for await (const { row, start, sealed } of readPastOf(connection, history, (segment) => segment.sealed)) {
      const isNewest = row.firstSequence === history.newestSequence;
      if (isNewest) newestDigest = start;
      // The newest one is not sealed, whatever its row says.
      rows.push({ ...row, digest: isNewest ? undefined : sealed });
      if (rows.length < segmentsPerQuery) continue;
      await write((writer) => writeRows(writer, segmentRows, rows));
      rows = [];
    }
    await write(async (writer) => {
      await writeRows(writer, segmentRows, rows);
      const ofChanges = `market_id = ? AND first_sequence = ? AND part >= ${firstChangesPart}`;
      await writer.run(`DELETE FROM book_segment_part WHERE ${ofChanges}`, [history.marketId, history.newestSequence]);
      await writeRows(writer, bookHistoryRows, [{ ...history, newestDigest }]);
    });
  }
}
