import { type BookUpdate, keyframeSteps } from "../domain/book-history.js";
import type { ChangedLevel } from "../domain/order-book.js";
import type { MarketDecimals } from "../live/live-market.js";
import {
  type OldestBegin,
  type PastBlock,
  readBegin,
  readBlockAt,
  readSegment,
  type SegmentRequest,
  type StoredSegment,
} from "../store/history-reads.js";
import { segmentStates } from "../store/history-table.js";
import { numberOf, type Past, type PastReads, updatesOf } from "./past.js";
import { foldTo } from "./past-book.js";
import { everyState, withBooks } from "./place.js";

/** What happened to a market's book in a block. */
export interface PastEvent {
  readonly block: PastBlock;
  /** The order of events: the block's place, or right behind it where the past is not kept from there on. */
  readonly place: bigint;
  /** `update`: levels changed. `whole`: these are all. `stale`: the book is not known from here on. */
  readonly kind: "update" | "whole" | "stale";
  /** Buys before sells, each side best first. */
  readonly levels: readonly ChangedLevel[];
  /** Of the last published update. */
  readonly sequenceNumber: bigint;
  /** False: only the reading of the past begins here. */
  readonly isAnew?: boolean;
  /** With `stale`: true if the past is not kept, which another process over the same store may not know yet. */
  readonly isNotKept?: boolean;
  /** With `whole` and `stale`: the scales from here on. */
  readonly decimals: MarketDecimals | undefined;
}

/** How the cursors of a replay read. */
export interface CursorReads extends PastReads {
  /** Cursors that may read ahead, beside those that do: so that a replay of many markets does not fill the queue. */
  aheadLeft: number;
}

/**
 * Reads the events of one market in order: some while those before are taken, so that the database has time. It has to
 * be closed.
 */
export class MarketCursor {
  #events: readonly PastEvent[] = [];
  #at = 0;
  /** The events behind those. */
  #ahead: Promise<readonly PastEvent[]> | undefined;
  #closed = false;
  /** Everything up to here is read, also ahead. So is what follows. */
  #position: bigint;
  /** Of the segment that holds the position; undefined: there is none. */
  #segment: Pick<StoredSegment, "nextState"> | undefined;
  #updates: Iterator<BookUpdate> | undefined;
  /** {@link #updates} are all up to here. */
  #updatesUpTo = 0n;
  /** Bytes that {@link #updates} hold, as far as they are counted. */
  #heldBytes = 0;
  /** Where the next segment begins. */
  #begins: bigint | undefined;
  isStale = false;
  /** Whether it is stale because the past is not kept, and said so. */
  #isNotKept = false;

  /** `oldest`: where the market's past begins; undefined: it has none. */
  constructor(
    private readonly past: Past,
    private readonly reads: CursorReads,
    readonly marketId: string,
    position: bigint,
    private readonly oldest: OldestBegin | undefined,
  ) {
    this.#position = position;
    this.#begins = oldest?.streamSequence;
    past.held.cursors++;
  }

  /** The next event; undefined: none is read. */
  get head(): PastEvent | undefined {
    return this.#events[this.#at];
  }

  /** Whether it has read everything up to exactly this place. */
  isAt(position: bigint): boolean {
    return this.head === undefined && this.#ahead === undefined && this.#position === position;
  }

  /** Nothing happened up to a place. */
  skipTo(position: bigint): void {
    this.#position = position;
    this.#drop();
  }

  shift(): void {
    this.#at++;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.past.held.cursors--;
    this.#drop();
  }

  /**
   * The state at the place where it begins: the whole book, or without `withBook` only its number. Undefined: the market
   * was not announced yet. It will be filled up to `upTo` first.
   */
  async begin(block: PastBlock, withBook: boolean, upTo: bigint): Promise<PastEvent | undefined> {
    const { streamSequence } = block;
    if (this.oldest === undefined) return undefined;
    if (this.oldest.streamSequence > streamSequence) {
      return this.oldest.isAnnouncement ? undefined : this.#stale(undefined, block);
    }
    const segment = await this.#read({ streamSequence, keyframe: withBook, changesAfter: 0n }, upTo);
    if (this.#heldBytes === 0) this.#drop();
    // It was dropped meanwhile.
    if (segment === undefined) return this.#stale(undefined, block);
    if (!withBooks.includes(segment.state)) return this.#stale(segment, block);
    const { levels, sequenceNumber } = await foldTo(this.past, this.reads, segment, block);
    const { buy, sell } = levels;
    const all = withBook ? ([...buy, ...sell] as ChangedLevel[]) : [];
    return { block, place: streamSequence, kind: "whole", levels: all, sequenceNumber, decimals: decimalsOf(segment) };
  }

  /** Resolves when there is an event, or everything up to a place is read. Until then the place must be the same. */
  async fill(upTo: bigint): Promise<void> {
    if (this.head !== undefined || this.#closed) return;
    const events = await (this.#ahead ?? this.#next(upTo));
    this.#events = events;
    this.#at = 0;
    this.#ahead = undefined;
    if (events.length === 0 || this.#closed || this.reads.aheadLeft === 0) return;
    this.reads.aheadLeft--;
    const ahead = this.#next(upTo);
    const isRead = () => {
      this.reads.aheadLeft++;
    };
    // Who asks for it hears of an error.
    ahead.then(isRead, isRead);
    this.#ahead = ahead;
  }

  /** Some events; none: everything up to the place is read. */
  async #next(upTo: bigint): Promise<readonly PastEvent[]> {
    let event: PastEvent | undefined;
    while (event === undefined && this.#position < upTo && !this.#closed) {
      if (this.#updates === undefined) event = await this.#open(upTo);
      const updates = this.#take();
      if (updates.length > 0) return this.#toEvents(updates, await this.past.timesOf(this.reads.lease, updates));
      event ??= await this.#goOn(upTo);
    }
    return event === undefined ? [] : [event];
  }

  /** Opens the segment that holds the position, for what is behind it. An event: it is kept no more. */
  async #open(upTo: bigint): Promise<PastEvent | undefined> {
    const streamSequence = this.#position;
    this.#updatesUpTo = upTo;
    if (this.#segment === undefined) return undefined;
    const segment = await this.#read({ streamSequence, keyframe: false, changesAfter: streamSequence }, upTo);
    return segment === undefined ? this.#lost() : undefined;
  }

  /** What is behind the position is not kept any more, up to where the oldest segment begins. */
  async #lost(): Promise<PastEvent | undefined> {
    const [streamSequence, wasNotKept] = [this.#position, this.#isNotKept];
    const { next, block } = await this.reads.lease(async (reader) => ({
      next: await readBegin(reader, this.marketId, { after: streamSequence }, everyState),
      block: (await readBlockAt(reader, { streamSequence })).block,
    }));
    this.#begins = next?.streamSequence;
    if (wasNotKept || next === undefined || block === undefined) return undefined;
    // At once, whatever other markets do up to there.
    return { ...this.#stale(undefined, block), place: streamSequence + 1n };
  }

  async #read(request: Omit<SegmentRequest, "marketId" | "changesUpTo">, upTo: bigint) {
    const { marketId } = this;
    const segment = await this.reads.lease((reader) =>
      readSegment(reader, { marketId, ...request, changesUpTo: upTo }),
    );
    this.#drop();
    this.#segment = segment && { nextState: segment.nextState };
    if (segment === undefined) return undefined;
    this.#begins = segment.nextSequence;
    this.#updatesUpTo = upTo;
    this.#updates = updatesOf(segment, request.streamSequence, upTo);
    this.#heldBytes = this.#closed ? 0 : this.past.hold(segment);
    return segment;
  }

  /** The updates that follow, as many as are decoded at once. */
  #take(): BookUpdate[] {
    const updates: BookUpdate[] = [];
    for (let levels = 0; levels < this.past.levelsAtOnce; levels += updates.at(-1)?.levels.length ?? 0) {
      const { done, value } = this.#updates?.next() ?? { done: true };
      if (done === true || value === undefined) break;
      updates.push(value);
    }
    const last = updates.at(-1);
    if (last === undefined) return updates;
    this.#position = last.streamSequence;
    if (this.#heldBytes === 0 || this.#closed) this.#drop();
    return updates;
  }

  #toEvents(updates: readonly BookUpdate[], times: readonly bigint[]): PastEvent[] {
    return updates.map((update, index) => {
      const { height, streamSequence, levels } = update;
      const timeNs = times[index] ?? 0n;
      const block = { height, timeNs, streamSequence };
      const sequenceNumber = numberOf(update, timeNs);
      return { block, place: streamSequence, kind: "update", levels, sequenceNumber, decimals: undefined };
    });
  }

  /** Behind the last update of a segment: goes on to the next one, if it begins in time. */
  async #goOn(upTo: bigint): Promise<PastEvent | undefined> {
    const [begins, before] = [this.#begins, this.#segment];
    this.#drop();
    if (begins === undefined || begins > this.#updatesUpTo) {
      this.#position = this.#updatesUpTo;
      return undefined;
    }
    // What goes on from a segment that is not kept begins with its whole book.
    const isContinued = before?.nextState === segmentStates.continued;
    const segment = await this.#read({ streamSequence: begins, keyframe: !isContinued, changesAfter: begins }, upTo);
    if (segment === undefined) return this.#lost();
    this.#position = begins;
    if (isContinued) return undefined;
    const block = { height: segment.height, timeNs: segment.timeNs, streamSequence: begins };
    return withBooks.includes(segment.state) ? this.#whole(segment, block) : this.#stale(segment, block);
  }

  /** Gives back what is read of the segment; it is opened again for what is behind the position. */
  #drop(): void {
    this.#updates = undefined;
    this.past.held.bytes -= this.#heldBytes;
    this.#heldBytes = 0;
  }

  async #whole({ keyframe, ...segment }: StoredSegment, block: PastBlock): Promise<PastEvent> {
    this.isStale = false;
    this.#isNotKept = false;
    const levels = keyframe === undefined ? [] : await this.past.inTurns(keyframeSteps(keyframe), this.reads);
    const { publishedSequenceNumber: sequenceNumber } = segment;
    const place = block.streamSequence;
    const isAnew = segment.state === segmentStates.whole;
    return { block, place, kind: "whole", levels, sequenceNumber, isAnew, decimals: decimalsOf(segment) };
  }

  /** Undefined: the past is not kept. */
  #stale(segment: StoredSegment | undefined, block: PastBlock): PastEvent {
    this.isStale = true;
    this.#isNotKept = segment === undefined || segment.state === segmentStates.notKept;
    const place = block.streamSequence;
    const isNotKept = this.#isNotKept;
    const last = segment?.state === segmentStates.notKept ? { ...block, streamSequence: place - 1n } : block;
    const decimals = decimalsOf(segment ?? {});
    return { block: last, place, kind: "stale", levels: [], sequenceNumber: 0n, isNotKept, decimals };
  }
}

function decimalsOf({ priceDecimals = 0n, sizeDecimals = 0n }: Partial<StoredSegment>): MarketDecimals {
  return { decimalPlaces: priceDecimals, positionDecimalPlaces: sizeDecimals };
}
