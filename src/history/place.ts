import { Failure, type FailureCode } from "../domain/failure.js";
import { isoInstant } from "../domain/instant.js";
import type { Reader } from "../store/connection/lease.js";
import {
  type Moment,
  type PastBlock,
  readBegin,
  readBlockAt,
  readOldestBegins,
  readSegment,
  type SegmentRequest,
  type StoredSegment,
  type StoreReach,
} from "../store/history-reads.js";
import { segmentStates } from "../store/history-table.js";

/** States of segments that hold books. */
export const withBooks: readonly number[] = [segmentStates.continued, segmentStates.whole];

export const everyState = Object.values(segmentStates);

/** The states that nothing bridges. */
export const withoutBooks = [segmentStates.stale, segmentStates.notKept];

/** Finds the block that an error names as the nearest of a market: the next one that can be answered, or else the last. */
export type FindNearest = (reader: Reader, marketId: string, streamSequence: bigint) => Promise<PastBlock | undefined>;

/** The block of a moment in the past, and how far the store reaches. */
export interface FoundPlace {
  readonly block: PastBlock;
  readonly reach: StoreReach;
}

/**
 * The newest block up to a moment. `nearest` finds what an error names, from the place on where the past ends or, with 0,
 * begins.
 * @throws Failure `out_of_range` beyond the newest block, `failed_precondition` if the past was not kept yet, or is not
 * any more
 */
export async function findPlace(
  reader: Reader,
  moment: Moment,
  nearest: (streamSequence: bigint) => Promise<PastBlock | undefined>,
): Promise<FoundPlace> {
  const { block, reach } = await readBlockAt(reader, moment);
  requirePassed(moment, reach);
  if (block === undefined) throw notKept(await nearest(0n));
  if (block.streamSequence <= reach.historySequence) return { block, reach };
  throw notKept(await nearest(reach.historySequence));
}

/**
 * The place right behind the last block before a moment. A block whose height is repeated has ended several times, and may
 * have changed a book each time: everything from here on belongs to the moment's block, or to later ones.
 */
export async function firstPlace(reader: Reader, moment: Moment): Promise<bigint> {
  if ("streamSequence" in moment) return moment.streamSequence;
  const before = "height" in moment ? { height: moment.height - 1n } : { timeNs: moment.timeNs - 1n };
  const { block } = await readBlockAt(reader, before);
  return (block?.streamSequence ?? 0n) + 1n;
}

/** @throws Failure `out_of_range` for a moment beyond the newest block; `beyond`: beyond the place right after it */
export function requirePassed(moment: Moment, { newest }: StoreReach, beyond = 0n): void {
  if (newest === undefined) throw notYet(undefined);
  const isBeyond =
    "height" in moment
      ? moment.height > newest.height + beyond
      : "timeNs" in moment
        ? moment.timeNs > newest.timeNs + beyond
        : moment.streamSequence > newest.streamSequence + beyond;
  if (isBeyond) throw notYet(newest);
}

/**
 * The segment that holds a market's book at a place.
 * @throws Failure `not_found` if the market was not announced yet, `failed_precondition` if its book is not known
 */
export async function requireSegment(
  reader: Reader,
  request: SegmentRequest,
  findNearest: FindNearest,
): Promise<StoredSegment> {
  return withBook(reader, request, await readSegment(reader, request), findNearest);
}

/**
 * The place behind the last block up to that of the request: behind that block, a part may begin that is not kept.
 * @throws Failure as {@link requireSegment} if the market's book is not known at the end of that block
 */
export async function requireBookBehind(
  reader: Reader,
  request: SegmentRequest,
  findNearest: FindNearest,
): Promise<bigint> {
  const { streamSequence } = request;
  const segment = await readSegment(reader, request);
  if (segment?.state === segmentStates.notKept) {
    const { firstSequence } = segment;
    const { block } = await readBlockAt(reader, { streamSequence: firstSequence }, true);
    const isBehind = block === undefined || block.streamSequence > streamSequence;
    if (isBehind) return requireBookBehind(reader, { ...request, streamSequence: firstSequence - 1n }, findNearest);
  }
  await withBook(reader, request, segment, findNearest);
  return streamSequence + 1n;
}

async function withBook(
  reader: Reader,
  { marketId, streamSequence }: SegmentRequest,
  segment: StoredSegment | undefined,
  findNearest: FindNearest,
): Promise<StoredSegment> {
  if (segment === undefined) throw await beforeOldest(reader, marketId, findNearest);
  if (withBooks.includes(segment.state)) return segment;
  const nearest = await findNearest(reader, marketId, streamSequence);
  throw segment.state === segmentStates.stale ? wasStale(marketId, nearest) : notKept(nearest);
}

function wasStale(marketId: string, nearest: PastBlock | undefined): Failure {
  const message = `market ${marketId} was stale then: updates of its venue were wrong or missing; ask for another time`;
  return misplaced("failed_precondition", "MARKET_WAS_STALE", message, nearest);
}

/** Whether a market has a book at a place. */
export async function hasBook(reader: Reader, marketId: string, streamSequence: bigint): Promise<boolean> {
  const begin = await readBegin(reader, marketId, { before: streamSequence + 1n, last: true }, everyState);
  return begin !== undefined && withBooks.includes(begin.state);
}

/** The first block behind a place at whose end a market has a book, or the last one before. */
export async function nearestBook(
  reader: Reader,
  marketId: string,
  streamSequence: bigint,
): Promise<PastBlock | undefined> {
  const next = await readBegin(reader, marketId, { after: streamSequence }, withBooks);
  if (next !== undefined) {
    const { block } = await readBlockAt(reader, { streamSequence: next.streamSequence }, true);
    if (block === undefined || block.streamSequence === next.streamSequence) return block;
    // The height is repeated, and counts as it was at last.
    const isThere = await hasBook(reader, marketId, block.streamSequence);
    return isThere ? block : nearestBook(reader, marketId, block.streamSequence);
  }
  return lastBook(reader, marketId, streamSequence);
}

/** The last block up to a place at whose end a market has a book. */
export async function lastBook(reader: Reader, marketId: string, upTo: bigint): Promise<PastBlock | undefined> {
  const begin = await readBegin(reader, marketId, { before: upTo + 1n, last: true }, withBooks);
  if (begin === undefined) return undefined;
  const range = { after: begin.streamSequence, before: upTo + 1n };
  const end = await readBegin(reader, marketId, range, withoutBooks);
  const { block } = await readBlockAt(reader, { streamSequence: end === undefined ? upTo : end.streamSequence - 1n });
  if (block !== undefined && block.streamSequence >= begin.streamSequence) return block;
  // It was there only before the last end of a repeated height.
  return lastBook(reader, marketId, begin.streamSequence - 1n);
}

async function beforeOldest(reader: Reader, marketId: string, findNearest: FindNearest): Promise<Failure> {
  const [oldest] = await readOldestBegins(reader, [marketId]);
  if (oldest?.isAnnouncement === true) {
    const when = oldest.state === segmentStates.notKept ? "later" : `at block ${oldest.height}`;
    const message = `market ${marketId} was not announced yet; it was ${when}`;
    return new Failure("not_found", message, { reason: "MARKET_UNKNOWN" });
  }
  return notKept(await findNearest(reader, marketId, 0n));
}

/** FAILED_PRECONDITION for a time of which no books are kept, or something else that a response needs. */
export function notKept(nearest: PastBlock | undefined, what = "books of that time are not kept"): Failure {
  return misplaced("failed_precondition", "HISTORY_NOT_KEPT", what, nearest);
}

function notYet(newest: PastBlock | undefined): Failure {
  const message = "that is beyond the newest block";
  return misplaced("out_of_range", "HISTORY_NOT_YET", message, newest, "; ask later, or follow a stream");
}

/** An error that names the nearest block that can be answered, in its message and for programs. */
function misplaced(
  code: FailureCode,
  reason: string,
  what: string,
  nearest: PastBlock | undefined,
  advice = "",
): Failure {
  if (nearest === undefined) return new Failure(code, `${what}${advice}`, { reason });
  const { height, timeNs, streamSequence } = nearest;
  const near = `; the nearest that can be answered is block ${height}, of ${isoInstant(timeNs)}`;
  const reasonMetadata = {
    nearest_height: String(height),
    nearest_timestamp: String(timeNs),
    nearest_stream_sequence: String(streamSequence),
  };
  return new Failure(code, `${what}${near}${advice}`, { reason, reasonMetadata });
}
