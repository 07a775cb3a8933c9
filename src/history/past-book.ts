import { type BookUpdate, keyframeSteps } from "../domain/book-history.js";
import type { Call } from "../domain/service.js";
import type { Levels } from "../domain/tracked-book.js";
import type { Reader } from "../store/connection/lease.js";
import type { BlockPlace } from "../store/connection/store-place.js";
import {
  type Moment,
  type PastBlock,
  readBlockAt,
  readLastTrade,
  readOldestTrade,
  type StoredSegment,
} from "../store/history-reads.js";
import type { PastTradeRow } from "../store/history-table.js";
import { LevelMap, numberOf, type Past, type PastReads, readsOn, updatesOf } from "./past.js";
import { type FindNearest, findPlace, hasBook, nearestBook, notKept, requireSegment } from "./place.js";

/** A book of the past. */
export interface PastBook {
  readonly block: PastBlock;
  readonly levels: Levels;
  /** Of the last published update; 0: there was none. */
  readonly sequenceNumber: bigint;
  readonly lastTrade: PastTradeRow | undefined;
  readonly priceDecimals: bigint;
  readonly sizeDecimals: bigint;
  /** When it was read. */
  readonly newest: BlockPlace | undefined;
  /** Whether the same request always gets the same: there is a block of greater height and time. */
  readonly isFinal: boolean;
}

/**
 * Reads a market's book at the end of a block, and makes a response of it. Both are part of the lease: so clients take
 * turns in what is computed too, and few books are in memory at once.
 * @throws Failure as {@link findPlace} and {@link requireSegment}
 */
export function readPastBook<T>(
  past: Past,
  marketId: string,
  moment: Moment,
  call: Call,
  respond: (book: PastBook) => Promise<T>,
): Promise<T> {
  return past.lease(call, async (reader) => {
    const { block, reach } = await findPlace(reader, moment, (place) => nearestPastBook(reader, marketId, place));
    const { newest } = reach;
    const { streamSequence } = block;
    const request = { marketId, streamSequence, keyframe: true, changesAfter: 0n, changesUpTo: streamSequence };
    const segment = await requireSegment(reader, request, nearestPastBook);
    const lastTrade = await readLastTrade(reader, marketId, block.height);
    if (lastTrade === undefined) await requireTrades(reader, marketId, block);
    const { priceDecimals, sizeDecimals } = segment;
    const { levels, sequenceNumber } = await foldTo(past, readsOn(reader, call), segment, block);
    const isFinal = newest !== undefined && newest.height > block.height && newest.timeNs > block.timeNs;
    const book = { block, levels, sequenceNumber, lastTrade, newest, isFinal };
    return respond({ ...book, priceDecimals, sizeDecimals });
  });
}

/** @throws Failure `failed_precondition` if the market's last trade as of a block may have been dropped */
async function requireTrades(reader: Reader, marketId: string, { height }: PastBlock): Promise<void> {
  const from = await oldestTraded(reader, marketId);
  if (from === undefined || height >= from.height) return;
  const message = "the book of that time is kept, but not its last trade (its changes can be listed)";
  throw notKept(await firstBookFrom(reader, marketId, from), message);
}

/**
 * The block of a market's oldest trade if earlier ones may have been dropped. Undefined: none of this market was, because
 * its newest one would have stayed.
 */
async function oldestTraded(reader: Reader, marketId: string): Promise<PastBlock | undefined> {
  const { progress, height } = await readOldestTrade(reader, marketId);
  const { oldest, oldestOfCandles } = progress ?? {};
  if (oldest === undefined || oldest.height === oldestOfCandles?.height) return undefined;
  if (height === undefined || height >= oldest.height) return undefined;
  return (await readBlockAt(reader, { height }, true)).block;
}

/** The nearest block with a book whose last trade is kept, too. */
const nearestPastBook: FindNearest = async (reader, marketId, streamSequence) => {
  const nearest = await nearestBook(reader, marketId, streamSequence);
  const from = nearest === undefined ? undefined : await oldestTraded(reader, marketId);
  if (nearest === undefined || from === undefined || nearest.height >= from.height) return nearest;
  return firstBookFrom(reader, marketId, from);
};

/** The first block, from this one on, at whose end a market has a book. */
async function firstBookFrom(reader: Reader, marketId: string, block: PastBlock): Promise<PastBlock | undefined> {
  if (await hasBook(reader, marketId, block.streamSequence)) return block;
  const nearest = await nearestBook(reader, marketId, block.streamSequence);
  return nearest !== undefined && nearest.height > block.height ? nearest : undefined;
}

/** The book of a segment at a place, and the number of its last update. Without a keyframe: the number alone. */
export async function foldTo(
  past: Past,
  reads: PastReads,
  segment: StoredSegment,
  place: Pick<PastBlock, "streamSequence"> & Partial<PastBlock>,
): Promise<{ readonly levels: Levels; readonly sequenceNumber: bigint }> {
  const { levels, last } = await past.inTurns(foldSteps(segment, place.streamSequence), reads);
  if (last === undefined) return { levels, sequenceNumber: segment.publishedSequenceNumber };
  const [timeNs = 0n] = last.height === place.height ? [place.timeNs] : await past.timesOf(reads.lease, [last]);
  return { levels, sequenceNumber: numberOf(last, timeNs) };
}

function* foldSteps(
  segment: StoredSegment,
  upTo: bigint,
): Generator<void, { readonly levels: Levels; readonly last: BookUpdate | undefined }> {
  const { keyframe, firstSequence } = segment;
  const book = new LevelMap(keyframe === undefined ? [] : yield* keyframeSteps(keyframe));
  let last: BookUpdate | undefined;
  for (const update of updatesOf(segment, firstSequence, upTo)) {
    book.set(update.levels);
    last = update;
    yield;
  }
  return { levels: yield* book.levels(true), last };
}
