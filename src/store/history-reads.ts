import { firstIdOfBlock, positionBits } from "../domain/block-position.js";
import { MalformedHistoryError } from "../domain/book-history.js";
import type { Reader } from "./connection/lease.js";
import { type BlockPlace, parsePlace, placeSql } from "./connection/store-place.js";
import {
  firstChangesPart,
  fromParts,
  type PastTradeRow,
  pastTradeRows,
  type SegmentRow,
  segmentStates,
} from "./history-table.js";
import { parseTradeProgress, type TradeProgress, tradeProgressSql } from "./trade-table.js";

/** A block with its place in the stream of events. */
export interface PastBlock {
  readonly height: bigint;
  readonly timeNs: bigint;
  readonly streamSequence: bigint;
}

/** How far a store reaches. */
export interface StoreReach {
  /** Undefined: nothing was loaded. */
  readonly newest: BlockPlace | undefined;
  /** Up to which stream sequence number the past is written. */
  readonly historySequence: bigint;
}

/** A moment, as requests name it. */
export type Moment = { readonly height: bigint } | { readonly timeNs: bigint } | { readonly streamSequence: bigint };

const reachSql = `${placeSql} AS place, progress.history_sequence AS historySequence`;

interface ReachRow {
  readonly place: string | null;
  readonly historySequence: bigint;
}

function reachOf(reader: Reader, row: ReachRow | undefined): StoreReach {
  const newest = parsePlace(row?.place ?? null);
  reader.found(newest);
  return { newest, historySequence: row?.historySequence ?? 0n };
}

/** How far the store reaches. */
export async function readReach(reader: Reader): Promise<StoreReach> {
  const [row] = await reader.query<ReachRow>(`SELECT ${reachSql} FROM progress WHERE id = 1`);
  return reachOf(reader, row);
}

/**
 * The newest block up to a moment, or with `from` the first one that is not earlier; undefined: there is none. And how
 * far the store reaches.
 */
export async function readBlockAt(
  reader: Reader,
  moment: Moment,
  from = false,
): Promise<{ readonly block: PastBlock | undefined; readonly reach: StoreReach }> {
  const [column, value] =
    "height" in moment
      ? (["height", moment.height] as const)
      : "timeNs" in moment
        ? (["time_ns", moment.timeNs] as const)
        : (["stream_sequence", moment.streamSequence] as const);
  const order = from ? "" : " DESC";
  const [row] = await reader.query<ReachRow & { [K in keyof PastBlock]: PastBlock[K] | null }>(
    `SELECT ${reachSql}, b.height AS height, b.time_ns AS timeNs, b.stream_sequence AS streamSequence
     FROM progress LEFT JOIN block b ON b.height = (
       SELECT height FROM block WHERE ${column} ${from ? ">=" : "<="} ${value}
       ORDER BY ${column}${order}${column === "height" ? "" : `, height${order}`} LIMIT 1)
     WHERE progress.id = 1`,
  );
  const reach = reachOf(reader, row);
  const { height, timeNs, streamSequence } = row ?? {};
  if (height == null || timeNs == null || streamSequence == null) return { block: undefined, reach };
  return { block: { height, timeNs, streamSequence }, reach };
}

/** Times of blocks by height; blocks that are not there are left out. */
export async function readBlockTimes(reader: Reader, heights: readonly bigint[]): Promise<Map<bigint, bigint>> {
  const [some] = heights;
  if (some === undefined) return new Map();
  let [first, last] = [some, some];
  for (const height of heights) {
    if (height < first) first = height;
    if (height > last) last = height;
  }
  const isDense = last - first < 2n * BigInt(heights.length);
  const where = isDense ? `height BETWEEN ${first} AND ${last}` : `height IN (${heights.join(", ")})`;
  const rows = await reader.query<{ height: bigint; timeNs: bigint }>(
    `SELECT height, time_ns AS timeNs FROM block WHERE ${where} AND ${reader.holds}`,
  );
  return new Map(rows.map(({ height, timeNs }) => [height, timeNs]));
}

/** A segment of a market's past, as it is stored. */
export interface StoredSegment extends Omit<SegmentRow, "digest" | "marketId"> {
  readonly isSealed: boolean;
  /** Where the next one begins; undefined: it is the newest. */
  readonly nextSequence: bigint | undefined;
  readonly nextState: number | undefined;
  /** Inflated; undefined: it was not asked for, or there is none. */
  readonly keyframe: Uint8Array | undefined;
  /** All changes of a sealed segment, inflated; empty: there is none. */
  readonly content: Uint8Array;
  /** The changes of an unsealed one in the range that was asked for. */
  readonly changes: readonly { readonly streamSequence: bigint; readonly body: Uint8Array }[];
}

/** What to read of the segment that holds a place. */
export interface SegmentRequest {
  readonly marketId: string;
  readonly streamSequence: bigint;
  readonly keyframe: boolean;
  /** Of an unsealed segment: its changes behind the first, and up to the second. */
  readonly changesAfter: bigint;
  readonly changesUpTo: bigint;
}

/** Sealing moves changes between two statements: more often than this it does not happen. */
const attemptsMax = 10;

/**
 * The segment that holds a place, from one or two statements; undefined: the market has none so early. Rows are sorted
 * here: with ORDER BY, MariaDB would copy them to a temporary table first, which takes twice as long as reading them.
 * @throws MalformedHistoryError if the book that it begins with is missing
 */
export async function readSegment(reader: Reader, request: SegmentRequest): Promise<StoredSegment | undefined> {
  for (let attempt = 1; attempt <= attemptsMax; attempt++) {
    const segment = await readSealed(reader, request);
    if (segment === undefined || segment.isSealed) return segment;
    const changes = await readUnsealed(reader, request, segment.firstSequence);
    if (changes !== undefined) return { ...segment, changes };
  }
  throw new Error(`the segment of ${request.marketId} at ${request.streamSequence} changes all the time`);
}

const segmentColumns = `s.first_sequence AS firstSequence, s.state, s.height, s.time_ns AS timeNs,
  s.published_sequence_number AS publishedSequenceNumber, s.price_decimals AS priceDecimals,
  s.size_decimals AS sizeDecimals, s.keyframe_levels AS keyframeLevels`;

async function readSealed(
  reader: Reader,
  { marketId, streamSequence, keyframe }: SegmentRequest,
): Promise<StoredSegment | undefined> {
  const rows = await reader.query<
    Omit<SegmentRow, "digest" | "marketId"> & {
      digest: string | null;
      nextSequence: bigint | null;
      nextState: number | null;
      part: number | null;
      body: Uint8Array | null;
      place: string | null;
    }
  >(
    `SELECT ${segmentColumns}, s.digest, p.part, p.body, ${placeSql} AS place,
       (SELECT MIN(n.first_sequence) FROM book_segment n
        WHERE n.market_id = s.market_id AND n.first_sequence > s.first_sequence) AS nextSequence,
       (SELECT n.state FROM book_segment n WHERE n.market_id = s.market_id AND n.first_sequence > s.first_sequence
        ORDER BY n.first_sequence LIMIT 1) AS nextState
     FROM book_segment s LEFT JOIN book_segment_part p ON p.market_id = s.market_id
       AND p.first_sequence = s.first_sequence ${keyframe ? "" : `AND p.part >= ${firstChangesPart}`}
     WHERE s.market_id = ? AND s.first_sequence =
       (SELECT MAX(first_sequence) FROM book_segment WHERE market_id = ? AND first_sequence <= ${streamSequence})`,
    [marketId, marketId],
  );
  rows.sort((a, b) => (a.part ?? 0) - (b.part ?? 0));
  const [row] = rows;
  if (row === undefined) return undefined;
  reader.found(parsePlace(row.place));
  const bodies = (isWanted: (part: number) => boolean): Uint8Array[] =>
    rows.flatMap(({ part, body }) => (part !== null && body !== null && isWanted(part) ? [body] : []));
  const keyframes = bodies((part) => part < firstChangesPart);
  const changed = bodies((part) => part >= firstChangesPart);
  if (keyframe && row.keyframeLevels > 0 && keyframes.length === 0) {
    throw new MalformedHistoryError(`the book of market ${marketId} at ${row.firstSequence} is missing`);
  }
  const { digest, nextSequence, nextState, part: _, body: __, place: ___, ...columns } = row;
  return {
    ...columns,
    isSealed: digest !== null,
    nextSequence: nextSequence ?? undefined,
    nextState: nextState ?? undefined,
    keyframe: keyframes.length === 0 ? undefined : fromParts(keyframes),
    content: changed.length === 0 ? new Uint8Array() : fromParts(changed),
    changes: [],
  };
}

/** Undefined: it was sealed meanwhile. */
async function readUnsealed(
  reader: Reader,
  { marketId, changesAfter, changesUpTo }: SegmentRequest,
  firstSequence: bigint,
): Promise<StoredSegment["changes"] | undefined> {
  const rows = await reader.query<{
    digest: string | null;
    streamSequence: bigint | null;
    body: Uint8Array | null;
  }>(
    `SELECT s.digest, c.stream_sequence AS streamSequence, c.body
     FROM book_segment s LEFT JOIN book_change c ON c.market_id = s.market_id
       AND c.stream_sequence > ${changesAfter < firstSequence ? firstSequence : changesAfter}
       AND c.stream_sequence <= ${changesUpTo}
     WHERE s.market_id = ? AND s.first_sequence = ${firstSequence} AND ${reader.holds}`,
    [marketId],
  );
  const [row] = rows;
  if (row === undefined || row.digest !== null) return undefined;
  const changes = rows.flatMap(({ streamSequence, body }) =>
    streamSequence === null || body === null ? [] : [{ streamSequence, body }],
  );
  return changes.sort((a, b) => (a.streamSequence < b.streamSequence ? -1 : 1));
}

/** Where a market's segments begin, without what is in them. */
export interface SegmentBegin extends PastBlock {
  readonly marketId: string;
  readonly state: number;
}

const beginColumns = "market_id AS marketId, first_sequence AS streamSequence, state, height, time_ns AS timeNs";

/** The first or last of a market's segments that begin behind `after` and before `before`, in one of these states. */
export async function readBegin(
  reader: Reader,
  marketId: string,
  range: { readonly after?: bigint; readonly before?: bigint; readonly last?: boolean },
  states: readonly number[],
): Promise<SegmentBegin | undefined> {
  const { after, before, last = false } = range;
  const bounds = [
    ...(after === undefined ? [] : [`AND first_sequence > ${after}`]),
    ...(before === undefined ? [] : [`AND first_sequence < ${before}`]),
  ];
  // Each is one lookup. With state IN (…), servers read all segments up to the first with one of them.
  const end = last ? "MAX" : "MIN";
  const ofState = `SELECT ${end}(first_sequence) AS first FROM book_segment WHERE market_id = ? ${bounds.join(" ")}`;
  const ends = states.map((state) => `${ofState} AND state = ${state}`);
  const [row] = await reader.query<SegmentBegin>(
    `SELECT ${beginColumns} FROM book_segment
     WHERE market_id = ? AND first_sequence = (SELECT ${end}(first) FROM (${ends.join(" UNION ALL ")}) AS ends)`,
    [marketId, ...states.map(() => marketId)],
  );
  return row;
}

/** Where the past of a market begins. */
export interface OldestBegin extends SegmentBegin {
  /** It was announced there, or while the past was not kept from there on: nothing of it was before. */
  readonly isAnnouncement: boolean;
}

/** The oldest segment of each market, of all or of these. */
export async function readOldestBegins(reader: Reader, marketIds: readonly string[]): Promise<OldestBegin[]> {
  const rows = await reader.query<SegmentBegin & { oldestDigest: string }>(
    `SELECT ${beginColumns}, oldest_digest AS oldestDigest
     FROM book_history JOIN book_segment USING (market_id)
     WHERE first_sequence = oldest_sequence ${marketIds.length === 0 ? "" : "AND market_id IN (?)"}`,
    marketIds.length === 0 ? [] : [marketIds],
  );
  return rows.map(({ oldestDigest, ...begin }) => ({ ...begin, isAnnouncement: oldestDigest === "" }));
}

/**
 * The oldest books of markets, of all or of these: where the first segment begins that has one. Each market's segments
 * are read up to that one. With the GROUP BY, servers do not merge the subquery into the join, and in this order they look
 * its rows up. MySQL reads in the order of the key only where its first column is named too. Otherwise all are read.
 */
export async function readOldestBooks(reader: Reader, marketIds: readonly string[]): Promise<SegmentBegin[]> {
  const only = marketIds.length === 0 ? "" : "WHERE h.market_id IN (?)";
  const states = [segmentStates.continued, segmentStates.whole].join(", ");
  return reader.query<SegmentBegin>(
    `SELECT STRAIGHT_JOIN ${beginColumns} FROM
       (SELECT h.market_id AS market_id, (SELECT s.first_sequence FROM book_segment AS s
          WHERE s.market_id = h.market_id AND s.state IN (${states})
          ORDER BY s.market_id, s.first_sequence LIMIT 1) AS first_sequence
        FROM book_history AS h ${only} GROUP BY h.market_id) AS oldest
     JOIN book_segment USING (market_id, first_sequence)`,
    marketIds.length === 0 ? [] : [marketIds],
  );
}

/** The segments of markets that begin behind a place. */
export async function readBeginsAfter(
  reader: Reader,
  marketIds: readonly string[],
  after: bigint,
): Promise<{ readonly reach: StoreReach; readonly begins: SegmentBegin[] }> {
  const reach = await readReach(reader);
  if (marketIds.length === 0) return { reach, begins: [] };
  const begins = await reader.query<SegmentBegin>(
    `SELECT ${beginColumns} FROM book_segment WHERE market_id IN (?) AND first_sequence > ${after}`,
    [marketIds],
  );
  return { reach, begins };
}

/** The last trade of a market up to the end of a block. */
export async function readLastTrade(
  reader: Reader,
  marketId: string,
  height: bigint,
): Promise<PastTradeRow | undefined> {
  const [row] = await reader.query<PastTradeRow>(
    `${pastTradeRows.select} WHERE market_id = ? AND id < ${firstIdOfBlock(height + 1n)} AND ${reader.holds}
     ORDER BY id DESC LIMIT 1`,
    [marketId],
  );
  return row;
}

/** Which trades are kept, and the block of a market's oldest one: of one moment, because trades are dropped at any time. */
export async function readOldestTrade(
  reader: Reader,
  marketId: string,
): Promise<{ readonly progress: TradeProgress | undefined; readonly height: bigint | undefined }> {
  const [row] = await reader.query<{ progress: string | null; id: bigint | null }>(
    `SELECT ${tradeProgressSql} AS progress, (SELECT MIN(id) FROM trade WHERE market_id = ?) AS id`,
    [marketId],
  );
  const height = row?.id == null ? undefined : row.id >> positionBits;
  return { progress: parseTradeProgress(row?.progress), height };
}
