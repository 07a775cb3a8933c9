import type { Page, PageRequest } from "../domain/page.js";
import type { Call } from "../domain/service.js";
import type { Levels } from "../domain/tracked-book.js";
import type { Reader } from "../store/connection/lease.js";
import {
  type Moment,
  type OldestBegin,
  type PastBlock,
  readBegin,
  readBlockAt,
  readOldestBegins,
  type StoreReach,
} from "../store/history-reads.js";
import { segmentStates } from "../store/history-table.js";
import { MarketCursor } from "./market-cursor.js";
import { bySide, type Past, readsOn } from "./past.js";
import {
  type FindNearest,
  firstPlace,
  hasBook,
  lastBook,
  nearestBook,
  notKept,
  requireBookBehind,
  requirePassed,
  requireSegment,
  withBooks,
  withoutBooks,
} from "./place.js";
import { pieceMs } from "./turns.js";

/** Changes of a page, at most. */
export const changesPerPageMax = 1_000;

/** The size of a page as JSON, by an upper bound of that of each change; a single change may exceed it. */
export const changesPageBytesMax = 1 << 20;

/** The JSON of a level without its price, and of a change without its levels, at most. */
const levelBytesMax = 90;
const changeBytesMax = 800;

/** How often a page is read that loses segments to the loader meanwhile. */
const attemptsMax = 3;

/** A block's change of a book. */
export interface PastChange {
  readonly block: PastBlock;
  readonly levels: Levels;
  readonly sequenceNumber: bigint;
  /** 0: the levels are the whole book. */
  readonly previousSequenceNumber: bigint;
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
  /** Of the first block, the end that counts; 0: it begins with the oldest that is kept. */
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
): Promise<Page<PastChange, bigint>> {
  return past.lease(call, async (reader) => {
    for (let attempt = 1; ; attempt++) {
      const read = await readPage(past, reader, marketId, range, page, call);
      if (!read.isTorn) return read.page;
      if (attempt === attemptsMax) throw notKept(await nearestChange(reader, marketId, read.lowest));
    }
  });
}

/** `isTorn`: segments from `lowest` on were dropped between two statements. */
async function readPage(
  past: Past,
  reader: Reader,
  marketId: string,
  range: ChangesRange,
  request: PageRequest<bigint>,
  call: Call,
): Promise<{ readonly page: Page<PastChange, bigint>; readonly isTorn: boolean; readonly lowest: bigint }> {
  const { backwards, cursor, newestFirst, size } = request;
  const [oldest] = await readOldestBegins(reader, [marketId]);
  const { bounds, reach } = await boundsOf(reader, marketId, range, newestFirst);
  const list = await clip(reader, marketId, bounds, newestFirst);
  if (cursor !== undefined && isOutside(cursor, bounds, list)) {
    throw notKept(await nearestOf(reader, marketId, cursor));
  }
  const scan = new Scan(past, reader, marketId, oldest, list, call);
  const ascending = newestFirst === backwards;
  const found = await scan.run(ascending, cursor, Math.min(size, changesPerPageMax));
  // Of the other side one change, that of the cursor too, tells whether there are any.
  const behind = cursor === undefined ? undefined : await scan.run(!ascending, cursor + (ascending ? 1n : -1n), 1);
  const isBehind = behind !== undefined && behind.changes.length > 0;
  const [hasNext, hasPrevious] = backwards ? [isBehind, found.isCut] : [found.isCut, isBehind];
  const { lowest } = found;
  // Afterwards, because the loader may drop segments at any time.
  const [kept] = await readOldestBegins(reader, [marketId]);
  const isTorn = kept !== undefined && kept.streamSequence >= lowest && kept.streamSequence !== oldest?.streamSequence;
  const rows = backwards ? found.changes.reverse() : found.changes;
  return { page: { rows, hasNext, hasPrevious, newestBlock: reach.newest }, isTorn, lowest };
}

/**
 * Whether a cursor is in the range, but not in the part of it that hangs together: what is in between was dropped, or is
 * not known.
 */
function isOutside(cursor: bigint, range: Bounds, part: Bounds): boolean {
  return (cursor >= range.from && cursor < part.from) || (cursor >= part.until && cursor < range.until);
}

/** The block that an error names about a cursor: its own, if the book is known there. */
const nearestOf: FindNearest = async (reader, marketId, cursor) => {
  if (!(await hasBook(reader, marketId, cursor))) return nearestChange(reader, marketId, cursor);
  const { block } = await readBlockAt(reader, { streamSequence: cursor }, true);
  return block && { ...block, streamSequence: cursor };
};

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
  const endsBehind = async () => {
    const { block } = await readBlockAt(reader, { streamSequence: wanted - 1n });
    return block !== undefined && block.streamSequence > kept;
  };
  if (isOff && ((from !== undefined && firstEnd > kept) || (newestFirst && (await endsBehind())))) {
    throw notKept(await nearestChange(reader, marketId, kept));
  }
  if (from === undefined) return { bounds: { from: 0n, firstEnd: 0n, until: end }, reach };
  const place = await firstPlace(reader, from);
  // If its height is repeated: a stream sequence number names a single end, as does a list that goes up to one.
  const isOfEnds = "streamSequence" in from || firstEnd >= end;
  const range = { after: place - 1n, before: firstEnd };
  const begin = isOfEnds ? await readBegin(reader, marketId, range, withBooks) : undefined;
  return { bounds: { from: place, firstEnd: begin?.streamSequence ?? firstEnd, until: end }, reach };
}

/** The nearest block with a book. If its height is repeated, the end at which that began: a list from there has it whole. */
const nearestChange: FindNearest = async (reader, marketId, streamSequence) => {
  const block = await nearestBook(reader, marketId, streamSequence);
  if (block === undefined || block.streamSequence <= streamSequence) return block;
  const begins = await beginOfPart(reader, marketId, block.streamSequence + 1n);
  // A later one if the loader dropped this one meanwhile.
  const isOfBlock = begins !== undefined && begins <= block.streamSequence;
  return isOfBlock ? { ...block, streamSequence: begins } : block;
};

/** Of a list that begins with the newest: the last block with a book up to a place, behind which the list goes on. */
const changeBefore: FindNearest = async (reader, marketId, streamSequence) => {
  return (await lastBook(reader, marketId, streamSequence)) ?? nearestChange(reader, marketId, streamSequence);
};

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
    if (until === 0n) return { from, until };
    const end = await requireBookBehind(reader, { ...request, streamSequence: until - 1n }, changeBefore);
    return { from: await partBefore(end), until: end };
  }
  const first = firstEnd === 0n ? (await readBegin(reader, marketId, {}, withBooks))?.streamSequence : firstEnd;
  if (first === undefined) return { from: until, until };
  if (first < until) await requireSegment(reader, { ...request, streamSequence: first }, nearestChange);
  const start = first < until ? first : from;
  const gap = await readBegin(reader, marketId, { after: start, before: until }, withoutBooks);
  return { from: await partBefore(start + 1n), until: gap?.streamSequence ?? until };
}

/** Where the part with books begins that is the last one before a place. */
async function beginOfPart(reader: Reader, marketId: string, before: bigint): Promise<bigint | undefined> {
  const gap = await readBegin(reader, marketId, { before, last: true }, withoutBooks);
  const begin = await readBegin(reader, marketId, gap === undefined ? {} : { after: gap.streamSequence }, withBooks);
  return begin?.streamSequence;
}

/** Reads changes in a range, segment by segment. */
class Scan {
  constructor(
    private readonly past: Past,
    private readonly reader: Reader,
    private readonly marketId: string,
    private readonly oldest: OldestBegin | undefined,
    private readonly bounds: Bounds,
    private readonly call: Call,
  ) {}

  /** At most `size` changes behind `cursor`, whether there are more, and the first place that this depends on. */
  async run(
    ascending: boolean,
    cursor: bigint | undefined,
    size: number,
  ): Promise<{ readonly changes: PastChange[]; readonly isCut: boolean; readonly lowest: bigint }> {
    const { from, until } = this.bounds;
    const low = ascending && cursor !== undefined && cursor >= from ? cursor + 1n : from;
    const high = !ascending && cursor !== undefined && cursor < until ? cursor : until;
    const changes: PastChange[] = [];
    let [bytes, last] = [0, low];
    for await (const change of ascending ? this.#upwards(low, high) : this.#downwards(low, high)) {
      bytes += bytesMax(change);
      const isCut = changes.length >= size || (changes.length > 0 && bytes > changesPageBytesMax);
      if (isCut) return { changes, isCut, lowest: ascending ? low : last };
      changes.push(change);
      last = change.block.streamSequence;
    }
    return { changes, isCut: false, lowest: low };
  }

  async *#upwards(low: bigint, high: bigint): AsyncGenerator<PastChange> {
    const reads = { ...readsOn(this.reader, this.call), aheadLeft: 0 };
    const cursor = new MarketCursor(this.past, reads, this.marketId, low - 1n, this.oldest);
    try {
      // Its number alone is of use.
      const before = { streamSequence: low - 1n, height: 0n, timeNs: 0n };
      let held = (await cursor.begin(before, false, high - 1n))?.sequenceNumber ?? 0n;
      let sliceEnd = performance.now() + pieceMs;
      for (await cursor.fill(high - 1n); cursor.head !== undefined; await cursor.fill(high - 1n)) {
        if (performance.now() >= sliceEnd) {
          await this.past.turns.next(reads.client);
          sliceEnd = performance.now() + pieceMs;
        }
        const { block, kind, levels, sequenceNumber, isAnew } = cursor.head;
        cursor.shift();
        const previousSequenceNumber = kind === "whole" ? 0n : held;
        held = sequenceNumber;
        if (kind === "whole" && !isAnew) continue;
        yield { block, levels: bySide(levels), sequenceNumber, previousSequenceNumber };
      }
    } finally {
      cursor.close();
    }
  }

  async *#downwards(low: bigint, high: bigint): AsyncGenerator<PastChange> {
    for (let end = high, at = high; end > low; ) {
      const segment = await readBegin(this.reader, this.marketId, { before: at, last: true }, withBooks);
      if (segment === undefined) return;
      // The change of its first block is in the segment before, if it goes on from there.
      at = segment.streamSequence;
      const begin = segment.state === segmentStates.continued ? at + 1n : at;
      const start = begin > low ? begin : low;
      const changes: PastChange[] = [];
      for await (const change of this.#upwards(start, end)) changes.push(change);
      yield* changes.reverse();
      end = start;
    }
  }
}

function bytesMax({ levels: { buy, sell } }: PastChange): number {
  return [...buy, ...sell].reduce((sum, { price }) => sum + levelBytesMax + price.length, changeBytesMax);
}
