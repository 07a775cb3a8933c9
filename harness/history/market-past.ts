import { Book, type Level, type Side } from "../chaos/book.js";
import { History } from "../chaos/history.js";

/** So many updates apart, the whole book is kept: a past book is one of these and what changed since. */
const updatesPerCheckpoint = 64;

/** A level of one side, as it is from then on. */
export interface SidedLevel extends Level {
  readonly side: Side;
}

/** The end of a block in the stream. A height that is repeated has several. */
export interface BlockEnd {
  /** Place in the list of all. */
  readonly index: number;
  readonly height: bigint;
  readonly timeNs: bigint;
  readonly sequence: bigint;
}

/** What a block changed in a book. */
export interface PublishedUpdate {
  readonly block: BlockEnd;
  readonly sequenceNumber: bigint;
  /** The changed levels as they are after the block. */
  readonly levels: readonly SidedLevel[];
  /** Of the whole book after it. */
  readonly digest: string;
}

export interface Decimals {
  readonly price: bigint;
  readonly size: bigint;
}

/** From the end of this block on: known, or not. A known one begins anew: nothing leads to it from what was before. */
export interface Era {
  readonly block: BlockEnd;
  readonly isStale: boolean;
  /** Its market existed before, and was not stale: its decimals are new. */
  readonly isRedefined: boolean;
}

/** All that was ever true of a market's book, by the blocks' places in the list of all. */
export class MarketPast {
  readonly updates: PublishedUpdate[] = [];
  /** Empty: not announced. */
  readonly eras: Era[] = [];
  readonly decimals = new History<Decimals>();
  /** As JSON. */
  readonly lastTrade = new History<string>();
  readonly #numbers = new Map<bigint, PublishedUpdate>();
  readonly #checkpoints: (readonly SidedLevel[])[] = [];

  constructor(readonly id: string) {}

  /** @param book after the update */
  publish(update: PublishedUpdate, book: Book): void {
    if (this.updates.length % updatesPerCheckpoint === 0) this.#checkpoints.push(levelsOf(book));
    this.updates.push(update);
    this.#numbers.set(update.sequenceNumber, update);
  }

  /** The era that a block is in; undefined: the market was not announced. */
  eraAt(index: number): Era | undefined {
    return this.eras[lastUpTo(this.eras, index)];
  }

  /** The first block end of the era after that of a block; undefined: it goes on. */
  eraAfter(index: number): Era | undefined {
    return this.eras[lastUpTo(this.eras, index) + 1];
  }

  /** The last update up to the end of a block. */
  updateAt(index: number): PublishedUpdate | undefined {
    return this.updates[lastUpTo(this.updates, index)];
  }

  /** The newest update of a sequence number. */
  updateOf(sequenceNumber: bigint): PublishedUpdate | undefined {
    return this.#numbers.get(sequenceNumber);
  }

  /** The updates of blocks after `after`, up to `last`. */
  updatesBetween(after: number, last: number): readonly PublishedUpdate[] {
    return this.updates.slice(lastUpTo(this.updates, after) + 1, lastUpTo(this.updates, last) + 1);
  }

  /** The levels at the end of a block. */
  bookAt(index: number): Book {
    const last = lastUpTo(this.updates, index);
    const book = new Book();
    if (last < 0) return book;
    const checkpoint = Math.floor(last / updatesPerCheckpoint);
    for (const level of this.#checkpoints[checkpoint] ?? []) book.set(level.side, level);
    const since = this.updates.slice(checkpoint * updatesPerCheckpoint + 1, last + 1);
    for (const { levels } of since) for (const level of levels) book.set(level.side, level);
    return book;
  }
}

function levelsOf(book: Book): SidedLevel[] {
  const { buy, sell } = book.best(Number.POSITIVE_INFINITY);
  return [
    ...buy.map((level) => ({ side: 1, ...level }) as const),
    ...sell.map((level) => ({ side: 2, ...level }) as const),
  ];
}

/** The last of these whose block is not after `index`; -1: none. */
function lastUpTo(list: readonly { readonly block: BlockEnd }[], index: number): number {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((list[middle]?.block.index ?? 0) <= index) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
