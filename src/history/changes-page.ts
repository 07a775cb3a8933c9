import { type BookUpdate, decodeKeyframe } from "../domain/book-history.js";
import type { PageRequest } from "../domain/page.js";
import type { Call } from "../domain/service.js";
import type { Levels } from "../domain/tracked-book.js";
import type { Reader } from "../store/connection/lease.js";
import type { BlockPlace } from "../store/connection/store-place.js";
import {
  type Moment,
  type PastBlock,
  readBegin,
  readBlockAt,
  readSegment,
  type SegmentRequest,
  type StoredSegment,
  type StoreReach,
} from "../store/history-reads.js";
import { segmentStates } from "../store/history-table.js";
import { bySide, numberOf, type Past, updatesOf } from "./past.js";
import { firstPlace, nearestBook, notKept, requirePassed, requireSegment, withBooks, withoutBooks } from "./place.js";

/** Changes of a page, at most. */
export const changesPerPageMax = 1_000;

/** The size of a page as JSON, by an upper bound of that of each change; a single change may exceed it. */
export const changesPageBytesMax = 1 << 20;

/** The JSON of a level without its price, and of a change without its levels, at most. */
const levelBytesMax = 90;
const changeBytesMax = 800;

/** A block's change of a book. */
export interface PastChange {
  readonly block: PastBlock;
  readonly levels: Levels;
  readonly sequenceNumber: bigint;
  /** 0: the levels are the whole book. */
  readonly previousSequenceNumber: bigint;
}

/** A page of changes, in the order of the list. */
export interface ChangesPage {
  readonly changes: readonly PastChange[];
  readonly hasNext: boolean;
  readonly hasPrevious: boolean;
  readonly newest: BlockPlace | undefined;
}

/** The range of places whose changes are listed; undefined: everything that is kept. */
export interface ChangesRange {
  /** Inclusive. */
  readonly from: Moment | undefined;
  /** Exclusive. */
  readonly until: Moment | undefined;
}

/** Stream sequence numbers: `from` inclusive, `until` exclusive. */
interface Bounds {
  readonly from: bigint;
  readonly until: bigint;
}

/** What a request asks for. */
interface Wanted extends Bounds {
  /** The end of the first block; 0: it begins with the oldest that is kept. */
  readonly firstEnd: bigint;
}

/**
 * Reads a page of a market's changes. Nothing bridges a part without a book: the list ends before it, as seen from where
 * it begins.
 * @throws Failure if the list would begin in such a part, and as {@link findPlace}
 */
export function readChanges(
  past: Past,
  marketId: string,
  range: ChangesRange,
  page: PageRequest<bigint>,
  call: Call,
): Promise<ChangesPage> {
  return past.lease(call, async (reader) => {
    const { bounds, reach } = await boundsOf(reader, marketId, range, page.newestFirst);
    const list = await clip(reader, marketId, bounds, page.newestFirst);
    const scan = new Scan(past, reader, marketId, list);
    const ascending = page.newestFirst === page.backwards;
    const { cursor } = page;
    const found = await scan.run(ascending, cursor, Math.min(page.size, changesPerPageMax));
    // Of the other side one change, that of the cursor too, tells whether there are any.
    const behind = cursor === undefined ? undefined : await scan.run(!ascending, cursor + (ascending ? 1n : -1n), 1);
    const isBehind = behind !== undefined && behind.raw.length > 0;
    const [hasNext, hasPrevious] = page.backwards ? [isBehind, found.isCut] : [found.isCut, isBehind];
    const changes = await timed(past, reader, page.backwards ? found.raw.reverse() : found.raw);
    return { changes, hasNext, hasPrevious, newest: reach.newest };
  });
}

async function boundsOf(
  reader: Reader,
  marketId: string,
  { from, until }: ChangesRange,
  newestFirst: boolean,
): Promise<{ readonly bounds: Wanted; readonly reach: StoreReach }> {
  const first = await readBlockAt(reader, from ?? { height: 0n }, true);
  const { reach } = first;
  if (reach.historySequence === 0n) throw notKept(undefined);
  if (from !== undefined) requirePassed(from, reach);
  const newest = reach.newest?.streamSequence ?? 0n;
  const kept = reach.historySequence < newest ? reach.historySequence : newest;
  let wanted = newest + 1n;
  if (until !== undefined) {
    requirePassed(until, reach, 1n);
    const place = await firstPlace(reader, until);
    if (place < wanted) wanted = place;
  }
  const end = wanted <= kept ? wanted : kept + 1n;
  const firstEnd = first.block?.streamSequence ?? end;
  // Blocks are loaded whose past is not kept: a list must not begin with them.
  const isOff = kept < newest;
  if (isOff && ((from !== undefined && firstEnd > kept) || (newestFirst && end < wanted))) {
    throw notKept(await nearestBook(reader, marketId, kept));
  }
  if (from === undefined) return { bounds: { from: 0n, firstEnd: 0n, until: end }, reach };
  return { bounds: { from: await firstPlace(reader, from), firstEnd, until: end }, reach };
}

/** The part of a range that hangs together, from its beginning on; of a list that begins with the newest, from its end on. */
async function clip(reader: Reader, marketId: string, wanted: Wanted, newestFirst: boolean): Promise<Bounds> {
  const { from, firstEnd, until } = wanted;
  const request = { marketId, keyframe: false, changesAfter: 0n, changesUpTo: 0n };
  // The part may begin before the range, which then begins where it says.
  const partBefore = async (place: bigint) => {
    const begins = await beginOfPart(reader, marketId, place);
    if (begins === undefined) return until;
    if (begins > from) return begins;
    return from;
  };
  if (newestFirst) {
    if (until > 0n) await requireSegment(reader, { ...request, streamSequence: until - 1n });
    return { from: await partBefore(until), until };
  }
  const first = firstEnd === 0n ? (await readBegin(reader, marketId, {}, withBooks))?.streamSequence : firstEnd;
  if (first === undefined) return { from: until, until };
  if (first >= until) return { from: await partBefore(until), until };
  await requireSegment(reader, { ...request, streamSequence: first });
  const gap = await readBegin(reader, marketId, { after: first, before: until }, withoutBooks);
  return { from: await partBefore(first + 1n), until: gap?.streamSequence ?? until };
}

/** Where the part with books begins that is the last one before a place. */
async function beginOfPart(reader: Reader, marketId: string, before: bigint): Promise<bigint | undefined> {
  const gap = await readBegin(reader, marketId, { before, last: true }, withoutBooks);
  const begin = await readBegin(reader, marketId, gap === undefined ? {} : { after: gap.streamSequence }, withBooks);
  return begin?.streamSequence;
}

/** A change whose block's time is not known yet. */
interface RawChange {
  readonly update: BookUpdate;
  /** Undefined: the number is that of the segment's beginning, and the book is whole. */
  readonly before: BookUpdate | undefined;
  readonly segment: StoredSegment;
  readonly isWhole: boolean;
}

/** Reads changes in a range, segment by segment. */
class Scan {
  constructor(
    private readonly past: Past,
    private readonly reader: Reader,
    private readonly marketId: string,
    private readonly bounds: Bounds,
  ) {}

  /** At most `size` changes behind `cursor`, and whether there are more. */
  async run(
    ascending: boolean,
    cursor: bigint | undefined,
    size: number,
  ): Promise<{ readonly raw: RawChange[]; readonly isCut: boolean }> {
    const { from, until } = this.bounds;
    const low = ascending && cursor !== undefined && cursor >= from ? cursor + 1n : from;
    const high = !ascending && cursor !== undefined && cursor < until ? cursor : until;
    const raw: RawChange[] = [];
    let bytes = 0;
    for await (const change of ascending ? this.#upwards(low, high) : this.#downwards(low, high)) {
      bytes += bytesMax(change.update);
      const isCut = raw.length >= size || (raw.length > 0 && bytes > changesPageBytesMax);
      if (isCut) return { raw, isCut };
      raw.push(change);
    }
    return { raw, isCut: false };
  }

  async *#upwards(low: bigint, high: bigint): AsyncGenerator<RawChange> {
    for (let at: bigint | undefined = low; at !== undefined && at < high; ) {
      const segment: StoredSegment = await this.#segmentAt(at, high);
      const { firstSequence, state } = segment;
      if (firstSequence === low && state === segmentStates.continued) yield* await this.#changeAt(low);
      yield* await this.#changesOf(segment, low, high);
      at = segment.nextSequence;
    }
  }

  async *#downwards(low: bigint, high: bigint): AsyncGenerator<RawChange> {
    for (let at = high - 1n; at >= low; ) {
      const segment = await this.#segmentAt(at, high);
      const { firstSequence, state } = segment;
      yield* (await this.#changesOf(segment, low, high)).reverse();
      if (firstSequence === low && state === segmentStates.continued) yield* await this.#changeAt(low);
      at = firstSequence - 1n;
    }
  }

  /** The change of a block at which a segment begins: the last one of the segment before, if that is still kept. */
  async #changeAt(streamSequence: bigint): Promise<RawChange[]> {
    const segment = await readSegment(this.reader, this.#request(streamSequence - 1n, streamSequence + 1n));
    return segment === undefined ? [] : this.#changesOf(segment, streamSequence, streamSequence + 1n);
  }

  #segmentAt(streamSequence: bigint, high: bigint): Promise<StoredSegment> {
    return requireSegment(this.reader, this.#request(streamSequence, high));
  }

  #request(streamSequence: bigint, high: bigint): SegmentRequest {
    const { marketId } = this;
    return { marketId, streamSequence, keyframe: true, changesAfter: 0n, changesUpTo: high - 1n };
  }

  /** In order, in the range. */
  async #changesOf(segment: StoredSegment, low: bigint, high: bigint): Promise<RawChange[]> {
    const changes: RawChange[] = [];
    const { firstSequence, height, keyframe } = segment;
    if (segment.state === segmentStates.whole && firstSequence >= low && firstSequence < high) {
      const levels = keyframe === undefined ? [] : decodeKeyframe(keyframe);
      const update = { streamSequence: firstSequence, height, numberOffset: 0n, levels };
      changes.push({ update, before: undefined, segment, isWhole: true });
    }
    let before: BookUpdate | undefined;
    await this.past.inTurns(updatesOf(segment, firstSequence, high - 1n), (update) => {
      if (update.streamSequence >= low) changes.push({ update, before, segment, isWhole: false });
      before = update;
    });
    return changes;
  }
}

async function timed(past: Past, reader: Reader, raw: readonly RawChange[]): Promise<PastChange[]> {
  const needed = raw.flatMap(({ update, before }) => (before === undefined ? [update] : [update, before]));
  const timeOf = await past.timesOf(reader, needed);
  return raw.map(({ update, before, segment, isWhole }) => {
    const timeNs = timeOf(update.height);
    const begin = segment.publishedSequenceNumber;
    const previous = before === undefined ? begin : numberOf(before, timeOf(before.height));
    const { height, streamSequence } = update;
    return {
      block: { height, timeNs, streamSequence },
      levels: bySide(update.levels),
      sequenceNumber: isWhole ? begin : numberOf(update, timeNs),
      previousSequenceNumber: isWhole ? 0n : previous,
    };
  });
}

function bytesMax({ levels }: BookUpdate): number {
  return levels.reduce((sum, { price }) => sum + levelBytesMax + price.length, changeBytesMax);
}
