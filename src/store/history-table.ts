import { deflateRawSync, inflateRawSync } from "node:zlib";
import { MalformedHistoryError, startDigest } from "../domain/book-history.js";
import { groupBy } from "../domain/group-by.js";
import { addGauge, type Metrics } from "../telemetry/metrics.js";
import { candleRows } from "./candle-table.js";
import { toBytes } from "./connection/column.js";
import type { Connection } from "./connection/connection.js";
import type { Database } from "./database.js";
import { type TradeRow, tradeProperties } from "./market-table.js";
import type { StatementRunner } from "./statement-group.js";
import { insertRows, partsOf, rowTable, rowText, type Table, type TableRows, writeRows } from "./table-rows.js";

/** How a market goes on where a segment of its past begins. */
export const segmentStates = {
  /** From the segment before, whose changes end with the book of the keyframe. */
  continued: 0,
  /** Anew: announced, no longer stale, with other decimals, or after a part that is not kept. */
  whole: 1,
  /** Its book is not right until the next segment. It has no keyframe and no changes. */
  stale: 2,
  /** The past is not kept until the next segment. */
  notKept: 3,
} as const;

/** A segment of a market's past, which lasts until the next one's `firstSequence`. */
export interface SegmentRow {
  readonly marketId: string;
  /** The stream sequence number of the end of a block, whose book is the keyframe. */
  readonly firstSequence: bigint;
  /** Of {@link segmentStates}. */
  readonly state: number;
  /** Of that block; where the past is not kept, of the last block before. */
  readonly height: bigint;
  readonly timeNs: bigint;
  /** Of the last published update up to that block; 0: there was none. */
  readonly publishedSequenceNumber: bigint;
  /** `decimal_places` and `position_decimal_places` of the market as of that block. */
  readonly priceDecimals: bigint;
  readonly sizeDecimals: bigint;
  readonly keyframeLevels: number;
  /** Undefined: the newest, which still grows. */
  readonly digest: Uint8Array | undefined;
}

export const segmentRows = rowTable<SegmentRow>("book_segment", 2, [
  "marketId",
  "firstSequence",
  "state",
  "height",
  "timeNs",
  "publishedSequenceNumber",
  "priceDecimals",
  "sizeDecimals",
  "keyframeLevels",
  "digest",
]);

/** All of a segment's row but its digest, which covers this. */
export function segmentRowText(row: SegmentRow): string {
  return rowText(segmentRows.values(row).slice(0, -1));
}

/** A piece of a segment's keyframe (parts from 0 on) or of its changes (from {@link firstChangesPart} on), deflated. */
export interface SegmentPartRow {
  readonly marketId: string;
  readonly firstSequence: bigint;
  readonly part: number;
  readonly body: Uint8Array;
}

export const segmentPartRows = rowTable<SegmentPartRow>("book_segment_part", 3, [
  "marketId",
  "firstSequence",
  "part",
  "body",
]);

export const firstChangesPart = 32_768;

/**
 * Bytes of a part. InnoDB splits pages in the middle where the rows of several markets arrive in turn, so that long rows
 * leave much of them empty: parts of 7,500 bytes took 2.4 times their bytes, of 2,000 1.46, of 1,000 1.35.
 */
export const partBytesMax = 1_200;

/** The most bytes that a keyframe or the changes of a segment are inflated to. */
export const inflatedBytesMax = 256 * 1024 * 1024;

/** The parts of a keyframe (`part` 0) or of changes (`part` {@link firstChangesPart}). */
export function toParts(
  { marketId, firstSequence }: Pick<SegmentRow, "marketId" | "firstSequence">,
  part: number,
  content: Uint8Array,
): SegmentPartRow[] {
  const deflated = deflateRawSync(content, { level: 6 });
  const parts: SegmentPartRow[] = [];
  for (let at = 0; at < deflated.length; at += partBytesMax) {
    const body = deflated.subarray(at, at + partBytesMax);
    parts.push({ marketId, firstSequence, part: part + parts.length, body });
  }
  return parts;
}

/** What is inflated, with the stream that did it: the types of Node lack the option `info`. */
interface Inflated {
  readonly buffer: Buffer;
  readonly engine: { readonly bytesWritten: number };
}

/** The content of all parts of a keyframe, or of changes, in order. @throws Error if they are not what was deflated */
export function fromParts(bodies: readonly Uint8Array[]): Buffer {
  const deflated = bodies.length === 1 && bodies[0] !== undefined ? bodies[0] : Buffer.concat(bodies);
  const inflated: unknown = inflateRawSync(deflated, { maxOutputLength: inflatedBytesMax, info: true });
  const { buffer, engine } = inflated as Inflated;
  if (engine.bytesWritten === deflated.length) return buffer;
  throw new MalformedHistoryError("bytes are left over");
}

/** An update of a market's newest segment: `body` is that of `encodeUpdate`. */
export interface BookChangeRow {
  readonly marketId: string;
  readonly streamSequence: bigint;
  readonly body: Uint8Array;
}

export const bookChangeRows = rowTable<BookChangeRow>("book_change", 2, ["marketId", "streamSequence", "body"]);

/** Both ends of the segments of a market, and of the chain of their digests. */
export interface BookHistoryRow {
  readonly marketId: string;
  readonly oldestSequence: bigint;
  /** Of the segment before the oldest; empty: there was none. */
  readonly oldestDigest: Uint8Array;
  readonly newestSequence: bigint;
  /** Of the newest as it began: `startDigest`. */
  readonly newestDigest: Uint8Array;
}

export const bookHistoryRows = rowTable<BookHistoryRow>("book_history", 1, [
  "marketId",
  "oldestSequence",
  "oldestDigest",
  "newestSequence",
  "newestDigest",
]);

/** Any trade of the past. */
export interface PastTradeRow extends Omit<TradeRow, "changedSequence"> {
  /** Its place, as `entryId` packs it. */
  readonly id: bigint;
}

export const pastTradeRows = rowTable<PastTradeRow>("trade", 1, ["id", "marketId", ...tradeProperties]);

/** What a batch of blocks brings of the past. */
export interface PastBatch {
  /** Segments that began, and those that were sealed. */
  readonly segments: readonly SegmentRow[];
  readonly parts: readonly SegmentPartRow[];
  /** Markets whose changes so far are in a sealed segment now. */
  readonly sealed: readonly string[];
  readonly changes: readonly BookChangeRow[];
  readonly histories: readonly BookHistoryRow[];
}

/** Writes what a batch brings. */
export async function writePast(connection: StatementRunner, batch: PastBatch): Promise<void> {
  for (const markets of partsOf(batch.sealed)) {
    await connection.run("DELETE FROM book_change WHERE market_id IN (?)", [markets]);
  }
  await insertRows(connection, bookChangeRows, batch.changes);
  await writeRows(connection, segmentRows, batch.segments);
  await insertRows(connection, segmentPartRows, batch.parts);
  await writeRows(connection, bookHistoryRows, batch.histories);
}

/** Where the past of a market is, for the loader to go on. */
export interface StoredPast {
  readonly history: BookHistoryRow;
  readonly newest: SegmentRow;
  /** `startDigest` of the newest. */
  readonly newestDigest: Uint8Array;
  /** The updates of the newest segment, in order. */
  readonly changes: readonly BookChangeRow[];
  /** When the segment after the oldest begins, if there is one. */
  readonly secondTimeNs: bigint | undefined;
}

/**
 * The past of every market that has any.
 * @throws MalformedHistoryError if the newest or oldest segment of a market is missing
 */
export async function readPasts(connection: Connection): Promise<StoredPast[]> {
  const histories = await readBookHistories(connection);
  const newest = new Map((await readNewestSegments(connection)).map((row) => [row.marketId, row]));
  const oldest = await connection.query<{ marketId: string; second: bigint | null }>(
    `SELECT market_id AS marketId, (
       SELECT s.time_ns FROM book_segment AS s WHERE s.market_id = book_segment.market_id
         AND s.first_sequence > book_segment.first_sequence ORDER BY s.first_sequence LIMIT 1) AS second
     FROM book_segment JOIN book_history USING (market_id) WHERE first_sequence = oldest_sequence`,
  );
  const secondTimes = new Map(oldest.map(({ marketId, second }) => [marketId, second]));
  const changes = groupBy(await readBookChanges(connection), ({ marketId }) => marketId);
  const pasts: StoredPast[] = [];
  for (const history of histories) {
    const { marketId } = history;
    const segment = newest.get(marketId);
    const start =
      segment === undefined
        ? await readOpenSegment(connection, history)
        : { newest: segment, newestDigest: history.newestDigest };
    const second = secondTimes.get(marketId);
    if (start === undefined || second === undefined) {
      throw new MalformedHistoryError(`a segment of market ${marketId} is missing`);
    }
    pasts.push({ history, ...start, changes: changes.get(marketId) ?? [], secondTimeNs: second ?? undefined });
  }
  return pasts;
}

/**
 * The newest stored segment of a market whose row of `book_history` names a later one: earlier releases could commit
 * that row a transaction before the segment. Undefined if the stored one is sealed, because then the later one was lost.
 */
async function readOpenSegment(
  connection: Connection,
  { marketId, oldestSequence, oldestDigest, newestSequence }: BookHistoryRow,
): Promise<Pick<StoredPast, "newest" | "newestDigest"> | undefined> {
  const [row, before] = await connection.query<SegmentAsRead>(
    `${segmentRows.select} WHERE market_id = ? AND first_sequence >= ? AND first_sequence < ?
     ORDER BY first_sequence DESC LIMIT 2`,
    [marketId, oldestSequence, newestSequence],
  );
  if (row === undefined || row.digest !== null) return undefined;
  const newest = toSegment(row);
  const digest = before === undefined ? oldestDigest : toSegment(before).digest;
  const parts = await readSegmentParts(connection, newest, newest.firstSequence + 1n);
  const keyframe = parts.length === 0 ? new Uint8Array() : fromParts(parts.map(({ body }) => body));
  return { newest, newestDigest: startDigest(digest ?? new Uint8Array(), segmentRowText(newest), keyframe) };
}

type HistoryAsRead = { [K in keyof BookHistoryRow]: BookHistoryRow[K] extends Uint8Array ? string : BookHistoryRow[K] };

/** The ends of the past of a market, or of every one. */
export async function readBookHistories(connection: Connection, marketId?: string): Promise<BookHistoryRow[]> {
  const [where, parameters] = marketId === undefined ? ["", []] : [" WHERE market_id = ?", [marketId]];
  const rows = await connection.query<HistoryAsRead>(bookHistoryRows.select + where, parameters);
  return rows.map((row) => {
    return { ...row, oldestDigest: toBytes(row.oldestDigest), newestDigest: toBytes(row.newestDigest) };
  });
}

/** The newest segment of each market. */
async function readNewestSegments(connection: Connection): Promise<SegmentRow[]> {
  const rows = await connection.query<SegmentAsRead>(
    `${segmentRows.select} JOIN book_history USING (market_id) WHERE first_sequence = newest_sequence`,
  );
  return rows.map(toSegment);
}

/** The updates of every market's newest segment, by market and in order. */
export function readBookChanges(connection: Connection): Promise<BookChangeRow[]> {
  return connection.query<BookChangeRow>(`${bookChangeRows.select} ORDER BY market_id, stream_sequence`);
}

/** A segment as it is read: bytes that are not a BLOB are text, one character per byte. */
export type SegmentAsRead = { [K in keyof Omit<SegmentRow, "digest">]: SegmentRow[K] } & { digest: string | null };

export function toSegment(row: SegmentAsRead): SegmentRow {
  return { ...row, digest: row.digest === null ? undefined : toBytes(row.digest) };
}

/** Segments of a market from a place on, in order. */
export async function readSegments(
  connection: Connection,
  marketId: string,
  fromSequence: bigint,
  segmentsMax: number,
): Promise<SegmentRow[]> {
  const rows = await connection.query<SegmentAsRead>(
    `${segmentRows.select} WHERE market_id = ? AND first_sequence >= ? ORDER BY first_sequence LIMIT ${segmentsMax}`,
    [marketId, fromSequence],
  );
  return rows.map(toSegment);
}

/** The parts of a segment, and any others before `endSequence`, in order. */
export function readSegmentParts(
  connection: Connection,
  { marketId, firstSequence }: Pick<SegmentRow, "marketId" | "firstSequence">,
  endSequence: bigint,
): Promise<SegmentPartRow[]> {
  return connection.query<SegmentPartRow>(
    `${segmentPartRows.select} WHERE market_id = ? AND first_sequence >= ? AND first_sequence < ?
     ORDER BY first_sequence, part`,
    [marketId, firstSequence, endSequence],
  );
}

/** Drops the segments of a market before a place. */
export async function dropSegments(
  connection: StatementRunner,
  marketId: string,
  beforeSequence: bigint,
): Promise<void> {
  for (const table of ["book_segment_part", "book_segment"]) {
    await connection.run(`DELETE FROM ${table} WHERE market_id = ? AND first_sequence < ?`, [marketId, beforeSequence]);
  }
}

/** `progress.history_sequence` as a row of its own, because earlier programs keep a digest of the others. */
export const historySequenceRows: TableRows<bigint> = {
  table: "progress",
  columns: ["id", "history_sequence"],
  keyColumns: 1,
  values: (sequence) => [1, sequence],
};

/** Up to which stream sequence number the past is written; 0: never, and without progress. */
export async function readHistorySequence(connection: Connection): Promise<bigint> {
  const [row] = await connection.query<{ sequence: bigint }>(
    "SELECT history_sequence AS sequence FROM progress WHERE id = 1",
  );
  return row?.sequence ?? 0n;
}

/** Those of the books' past of which the loader keeps a row in `history_digest`. Segments have digests of their own. */
export const digestedPast: readonly Table[] = [bookHistoryRows, historySequenceRows, bookChangeRows];

/** Every table of the books' past. */
const bookTables = [segmentRows, segmentPartRows, bookChangeRows, bookHistoryRows];

/** Every table of the past. */
export const historyTables = [...bookTables, pastTradeRows];

/** How large the past is, and of when. */
export interface PastFigures {
  /** Of the books' tables with their indexes, about. */
  readonly bytes: number;
  /** Of trades and candles with their indexes, about. */
  readonly tradeBytes: number;
  /** The time of the oldest block whose trades are kept, 0 if all are; undefined: none were loaded. */
  readonly oldestTradeNs: bigint | undefined;
  /** The times of the oldest book that is kept and of the newest block that is in it; undefined: there is none. */
  readonly oldestTimeNs: bigint | undefined;
  readonly newestTimeNs: bigint | undefined;
}

export async function readPastFigures(connection: Connection): Promise<PastFigures> {
  const bytesOf = `(SELECT CAST(SUM(data_length + index_length) AS UNSIGNED) FROM information_schema.tables
    WHERE table_schema = DATABASE() AND table_name IN (?))`;
  const [row] = await connection.query<
    Record<"bytes" | "tradeBytes" | "oldestTrade" | "oldest" | "newest", bigint | null>
  >(
    `SELECT ${bytesOf} AS bytes, ${bytesOf} AS tradeBytes,
       (SELECT oldest_time_ns FROM trade_progress WHERE id = 1) AS oldestTrade,
       (SELECT MIN(books.time_ns) FROM (SELECT (SELECT s.time_ns FROM book_segment s
           WHERE s.market_id = h.market_id AND s.first_sequence >= h.oldest_sequence
             AND s.state IN (${segmentStates.continued}, ${segmentStates.whole})
           ORDER BY s.first_sequence LIMIT 1) AS time_ns FROM book_history h) AS books) AS oldest,
       (SELECT time_ns FROM block WHERE stream_sequence <= (SELECT history_sequence FROM progress WHERE id = 1)
         ORDER BY stream_sequence DESC LIMIT 1) AS newest`,
    [bookTables.map(({ table }) => table), [pastTradeRows.table, candleRows.table]],
  );
  return {
    bytes: Number(row?.bytes ?? 0n),
    tradeBytes: Number(row?.tradeBytes ?? 0n),
    oldestTradeNs: row?.oldestTrade ?? undefined,
    oldestTimeNs: row?.oldest ?? undefined,
    newestTimeNs: row?.newest ?? undefined,
  };
}

/** How often the figures are read again: seldom, so that they keep no connection from being idle. */
export const pastFiguresIntervalMs = 300_000;

/** Reads the figures now and then, for metrics. @returns what ends that */
export function followPastFigures(database: Pick<Database, "withConnection">, metrics: Metrics): () => void {
  let figures: PastFigures | undefined;
  const read = () => {
    // While the database is away, the last ones stay.
    void database.withConnection(readPastFigures).then(
      (now) => {
        figures = now;
      },
      () => undefined,
    );
  };
  registerPastMetrics(metrics, () => figures);
  read();
  const timer = setInterval(read, pastFiguresIntervalMs).unref();
  return () => clearInterval(timer);
}

/** Metrics of the past; `figures` is undefined before they were read. */
export function registerPastMetrics(metrics: Metrics, figures: () => PastFigures | undefined): void {
  const gauge = (name: string, help: string, read: (figures: PastFigures) => number | undefined) => {
    const value = () => {
      const now = figures();
      return now === undefined ? undefined : read(now);
    };
    addGauge(metrics, `marketd_${name}`, help, value, { aggregator: "max" });
  };
  const seconds = (timeNs: bigint | undefined) => (timeNs === undefined ? undefined : Number(timeNs) / 1e9);
  gauge("history_bytes", "Size of the books' past with indexes, as the database estimates it.", ({ bytes }) => bytes);
  const oldestHelp = "Block time of the oldest book that is kept, in Unix seconds.";
  gauge("history_oldest_timestamp_seconds", oldestHelp, ({ oldestTimeNs }) => seconds(oldestTimeNs));
  const newestHelp = "Block time up to which the books' past is written, in Unix seconds.";
  gauge("history_newest_timestamp_seconds", newestHelp, ({ newestTimeNs }) => seconds(newestTimeNs));
  const tradeBytesHelp = "Size of trades and candles with indexes, as the database estimates it.";
  gauge("trades_bytes", tradeBytesHelp, ({ tradeBytes }) => tradeBytes);
  const oldestTradeHelp = "Time of the oldest block whose trades are kept, in Unix seconds; 0: all are.";
  gauge("trades_oldest_timestamp_seconds", oldestTradeHelp, ({ oldestTradeNs }) => seconds(oldestTradeNs));
}
