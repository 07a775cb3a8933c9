import { type BookUpdate, decodeKeyframe } from "../domain/book-history.js";
import type { Call } from "../domain/service.js";
import type { Levels } from "../domain/tracked-book.js";
import type { BlockPlace } from "../store/connection/store-place.js";
import { type Moment, type PastBlock, readLastTrade, type StoredSegment } from "../store/history-reads.js";
import type { PastTradeRow } from "../store/history-table.js";
import { LevelMap, numberOf, type Past, updatesOf } from "./past.js";
import { findPlace, nearestBook, requireSegment } from "./place.js";

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

/** Reads a market's book at the end of a block. @throws Failure as {@link findPlace} and {@link requireSegment} */
export function readPastBook(past: Past, marketId: string, moment: Moment, call: Call): Promise<PastBook> {
  return past.lease(call, async (reader) => {
    const { block, reach } = await findPlace(reader, moment, (place) => nearestBook(reader, marketId, place));
    const { streamSequence } = block;
    const request = { marketId, streamSequence, keyframe: true, changesAfter: 0n, changesUpTo: streamSequence };
    const segment = await requireSegment(reader, request);
    const { levels, last } = await foldTo(past, segment, streamSequence);
    const timeOf = await past.timesOf(reader, last === undefined ? [] : [last]);
    const { newest } = reach;
    return {
      block,
      levels: levels.levels(true),
      sequenceNumber: last === undefined ? segment.publishedSequenceNumber : numberOf(last, timeOf(last.height)),
      lastTrade: await readLastTrade(reader, marketId, block.height),
      priceDecimals: segment.priceDecimals,
      sizeDecimals: segment.sizeDecimals,
      newest,
      isFinal: newest !== undefined && newest.height > block.height && newest.timeNs > block.timeNs,
    };
  });
}

/** The book of a segment at a place, and its last update up to there. */
export async function foldTo(
  past: Past,
  segment: StoredSegment,
  streamSequence: bigint,
): Promise<{ readonly levels: LevelMap; readonly last: BookUpdate | undefined }> {
  const levels = new LevelMap();
  levels.set(segment.keyframe === undefined ? [] : decodeKeyframe(segment.keyframe));
  let last: BookUpdate | undefined;
  await past.inTurns(updatesOf(segment, segment.firstSequence, streamSequence), (update) => {
    levels.set(update.levels);
    last = update;
  });
  return { levels, last };
}
