import { type BookUpdate, decodeKeyframe } from "../domain/book-history.js";
import type { ChangedLevel } from "../domain/order-book.js";
import type { MarketDecimals } from "../live/live-market.js";
import type { Reader } from "../store/connection/lease.js";
import {
  type OldestBegin,
  type PastBlock,
  readBegin,
  readBlockAt,
  readSegment,
  type StoredSegment,
} from "../store/history-reads.js";
import { segmentStates } from "../store/history-table.js";
import { numberOf, type Past, updatesOf } from "./past.js";
import { foldTo } from "./past-book.js";

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
  /** With `whole` and `stale`: the scales from here on. */
  readonly decimals: MarketDecimals | undefined;
}

const everyState = Object.values(segmentStates);

/** Leases a reader for `use`. */
export type LeaseReader = <T>(use: (reader: Reader) => Promise<T>) => Promise<T>;

/** Reads the events of one market in order, some at a time. */
export class MarketCursor {
  readonly #past: Past;
  readonly #events: PastEvent[] = [];
  #at = 0;
  /** Everything up to here is read. */
  #position: bigint;
  #segment: StoredSegment | undefined;
  #updates: Iterator<BookUpdate> | undefined;
  /** Where the next segment begins. */
  #begins: bigint | undefined;
  /** Whether a segment holds the position. */
  #isWithin = false;
  /** {@link #updates} are all up to here. */
  #updatesUpTo = 0n;
  isStale = false;

  /** `oldest`: where the market's past begins; undefined: it has none. */
  constructor(
    past: Past,
    readonly marketId: string,
    position: bigint,
    private readonly oldest: OldestBegin | undefined,
  ) {
    this.#past = past;
    this.#position = position;
    this.#begins = oldest?.streamSequence;
  }

  /** The next event; undefined: none is read. */
  get head(): PastEvent | undefined {
    return this.#events[this.#at];
  }

  /** Whether {@link fill} has to be called before the next event up to a place is known. */
  needsFill(upTo: bigint): boolean {
    return this.head === undefined && this.#position < upTo;
  }

  /** Whether it has read everything up to exactly this place. */
  isAt(position: bigint): boolean {
    return this.head === undefined && this.#position === position;
  }

  /** Nothing happened up to a place. */
  skipTo(position: bigint): void {
    this.#position = position;
    this.#updates = undefined;
  }

  shift(): void {
    this.#at++;
    if (this.#at < this.#events.length) return;
    this.#events.length = 0;
    this.#at = 0;
  }

  /**
   * The state at the place where it begins: the whole book, or without `withBook` only its number. Undefined: the market
   * was not announced yet. The book is folded in turns with others, when `read` has given its reader back.
   */
  async begin(read: LeaseReader, block: PastBlock, withBook: boolean): Promise<PastEvent | undefined> {
    const { streamSequence } = block;
    if (this.oldest === undefined) return undefined;
    if (this.oldest.streamSequence > streamSequence) {
      return this.oldest.isAnnouncement ? undefined : this.#stale(undefined, block);
    }
    const segment = await read((reader) => this.#read(reader, streamSequence, streamSequence, withBook, 0n));
    if (segment === undefined) return undefined;
    if (this.#isWithoutBook(segment)) return this.#stale(segment, block);
    const { levels, last } = await foldTo(this.#past, segment, streamSequence);
    const timeOf = last && (await read((reader) => this.#past.timesOf(reader, [last])));
    const sequenceNumber = last && timeOf ? numberOf(last, timeOf(last.height)) : segment.publishedSequenceNumber;
    const { buy, sell } = levels.levels(true);
    const all = withBook ? ([...buy, ...sell] as ChangedLevel[]) : [];
    return { block, place: streamSequence, kind: "whole", levels: all, sequenceNumber, decimals: decimalsOf(segment) };
  }

  /** Reads until there is an event, or everything up to a place is read. At most `count` are decoded at once. */
  async fill(reader: Reader, upTo: bigint, count: number): Promise<void> {
    while (this.needsFill(upTo)) {
      if (this.#updates === undefined) await this.#open(reader, upTo);
      const updates = this.#take(count);
      if (updates.length > 0) await this.#push(reader, updates);
      else await this.#goOn(reader, upTo);
    }
  }

  /** Opens the segment that holds the position, for what is behind it. */
  async #open(reader: Reader, upTo: bigint): Promise<void> {
    this.#updatesUpTo = upTo;
    if (!this.#isWithin) return;
    const segment = await this.#read(reader, this.#position, upTo, false, this.#position);
    if (segment !== undefined) return;
    // It is kept no more. The book is not known from here on, whatever other markets do up to where it is again.
    const next = await readBegin(reader, this.marketId, { after: this.#position }, everyState);
    this.#begins = next?.streamSequence;
    if (this.isStale || next === undefined) return;
    const { block } = await readBlockAt(reader, { streamSequence: this.#position });
    if (block !== undefined) this.#events.push({ ...this.#stale(undefined, block), place: this.#position + 1n });
  }

  async #read(
    reader: Reader,
    streamSequence: bigint,
    upTo: bigint,
    keyframe: boolean,
    changesAfter: bigint,
  ): Promise<StoredSegment | undefined> {
    const { marketId } = this;
    const segment = await readSegment(reader, { marketId, streamSequence, keyframe, changesAfter, changesUpTo: upTo });
    this.#segment = segment;
    this.#isWithin = segment !== undefined;
    if (segment === undefined) return undefined;
    this.#updatesUpTo = upTo;
    this.#begins = segment.nextSequence;
    this.#updates = updatesOf(segment, streamSequence, upTo);
    return segment;
  }

  #take(count: number): BookUpdate[] {
    const updates: BookUpdate[] = [];
    while (updates.length < count) {
      const { done, value } = this.#updates?.next() ?? { done: true };
      if (done === true || value === undefined) break;
      updates.push(value);
    }
    return updates;
  }

  async #push(reader: Reader, updates: readonly BookUpdate[]): Promise<void> {
    const timeOf = await this.#past.timesOf(reader, updates);
    for (const update of updates) {
      const { height, streamSequence, levels } = update;
      const timeNs = timeOf(height);
      const sequenceNumber = numberOf(update, timeNs);
      this.#events.push({
        block: { height, timeNs, streamSequence },
        place: streamSequence,
        kind: "update",
        levels,
        sequenceNumber,
        decimals: undefined,
      });
      this.#position = streamSequence;
    }
  }

  /** Behind the last update of a segment: goes on to the next one, if it begins in time. */
  async #goOn(reader: Reader, upTo: bigint): Promise<void> {
    const begins = this.#begins;
    this.#updates = undefined;
    if (this.head !== undefined) return;
    if (begins === undefined || begins > this.#updatesUpTo) {
      this.#position = this.#updatesUpTo;
      return;
    }
    // What goes on from a segment that is not kept begins with its whole book.
    const wasWithin = this.#isWithin;
    const isContinued = wasWithin && this.#segment?.nextState === segmentStates.continued;
    const segment = await this.#read(reader, begins, upTo, !isContinued, begins);
    this.#position = begins;
    if (segment === undefined || (wasWithin && segment.state === segmentStates.continued)) return;
    const block = { height: segment.height, timeNs: segment.timeNs, streamSequence: begins };
    this.#events.push(this.#isWithoutBook(segment) ? this.#stale(segment, block) : this.#whole(segment, block));
  }

  #isWithoutBook({ state }: StoredSegment): boolean {
    return state === segmentStates.stale || state === segmentStates.notKept;
  }

  #whole(segment: StoredSegment, block: PastBlock): PastEvent {
    this.isStale = false;
    const levels = segment.keyframe === undefined ? [] : decodeKeyframe(segment.keyframe);
    const { publishedSequenceNumber: sequenceNumber } = segment;
    const place = block.streamSequence;
    return { block, place, kind: "whole", levels, sequenceNumber, decimals: decimalsOf(segment) };
  }

  /** Undefined: the past is not kept. */
  #stale(segment: StoredSegment | undefined, block: PastBlock): PastEvent {
    this.isStale = true;
    const place = block.streamSequence;
    const last = segment?.state === segmentStates.notKept ? { ...block, streamSequence: place - 1n } : block;
    return { block: last, place, kind: "stale", levels: [], sequenceNumber: 0n, decimals: decimalsOf(segment ?? {}) };
  }
}

function decimalsOf({ priceDecimals = 0n, sizeDecimals = 0n }: Partial<StoredSegment>): MarketDecimals {
  return { decimalPlaces: priceDecimals, positionDecimalPlaces: sizeDecimals };
}
