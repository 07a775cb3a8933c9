import type { DepthLevel } from "./depth-book.js";
import { type BookSide, bestFirst, PriceLadder, sides } from "./price-ladder.js";

/** Vanished levels that a book remembers beyond as many as it has levels. */
export const tombstonesSpareMax = 1024;

/** A point in a book's history. It only grows; several changes may share one. */
export type Mark = number;

/** Levels of both sides, each the best first. */
export interface Levels {
  readonly buy: readonly DepthLevel[];
  readonly sell: readonly DepthLevel[];
}

/** A level in the chain of its kind: the whole are chained by their last change, and so are those that vanished. */
interface ChainedLevel extends DepthLevel {
  readonly side: BookSide;
  readonly mark: Mark;
  older: ChainedLevel | undefined;
  newer: ChainedLevel | undefined;
}

/** A doubly linked list in the order of change: no allocation beside the levels, and O(1) to move one to its end. */
class Chain {
  newest: ChainedLevel | undefined;
  oldest: ChainedLevel | undefined;
  size = 0;

  push(level: ChainedLevel): void {
    level.older = this.newest;
    level.newer = undefined;
    if (this.newest === undefined) this.oldest = level;
    else this.newest.newer = level;
    this.newest = level;
    this.size++;
  }

  remove(level: ChainedLevel): void {
    if (level.older === undefined) this.oldest = level.newer;
    else level.older.newer = level.newer;
    if (level.newer === undefined) this.newest = level.older;
    else level.newer.older = level.older;
    this.size--;
  }
}

/**
 * An order book that answers "which levels changed since?" at the cost of as many levels as did. Vanished levels are
 * remembered for that; when there are more of them than the book has levels and {@link tombstonesSpareMax}, the oldest
 * are forgotten, and who asks from before that gets the whole book, which is then no larger than what changed.
 */
export class TrackedBook {
  readonly #ladders = { 1: new PriceLadder<ChainedLevel>(sides.buy), 2: new PriceLadder<ChainedLevel>(sides.sell) };
  readonly #tombstones = { 1: new Map<string, ChainedLevel>(), 2: new Map<string, ChainedLevel>() };
  readonly #present = new Chain();
  readonly #vanished = new Chain();
  readonly #tombstonesSpareMax: number;
  #forgotten: Mark = 0;

  constructor(options: { readonly tombstonesSpareMax?: number } = {}) {
    this.#tombstonesSpareMax = options.tombstonesSpareMax ?? tombstonesSpareMax;
  }

  /** The whole book, each side the best first. Don't keep the arrays over a change. */
  get levels(): Levels {
    return { buy: this.#ladders[1].levels, sell: this.#ladders[2].levels };
  }

  /** How many levels there are, and how many vanished ones are remembered. */
  get size(): { readonly levels: number; readonly tombstones: number } {
    return { levels: this.#present.size, tombstones: this.#vanished.size };
  }

  /** Sets a level as it is at `mark`, which is not below any mark before; volume 0 and no orders: it vanished. */
  set(side: BookSide, price: string, volume: bigint, numberOfOrders: bigint, mark: Mark): void {
    const ladder = this.#ladders[side];
    const tombstones = this.#tombstones[side];
    const before = ladder.get(price);
    if (before !== undefined) this.#present.remove(before);
    const tombstone = tombstones.get(price);
    if (tombstone !== undefined) this.#vanished.remove(tombstone);
    const level: ChainedLevel = { price, volume, numberOfOrders, side, mark, older: undefined, newer: undefined };
    if (volume === 0n && numberOfOrders === 0n) {
      if (before !== undefined) ladder.delete(price);
      tombstones.set(price, level);
      this.#vanished.push(level);
    } else {
      tombstones.delete(price);
      ladder.set(level);
      this.#present.push(level);
    }
    this.#forget();
  }

  /** Holds exactly these levels from `mark` on. What changed since earlier marks is no longer known. */
  replace(levels: Iterable<DepthLevel & { readonly side: BookSide }>, mark: Mark): void {
    for (const chain of [this.#present, this.#vanished]) {
      chain.newest = undefined;
      chain.oldest = undefined;
      chain.size = 0;
    }
    const bySide: Record<BookSide, ChainedLevel[]> = { 1: [], 2: [] };
    for (const { side, price, volume, numberOfOrders } of levels) {
      const level: ChainedLevel = { price, volume, numberOfOrders, side, mark, older: undefined, newer: undefined };
      bySide[side].push(level);
      this.#present.push(level);
    }
    for (const side of [sides.buy, sides.sell]) {
      this.#ladders[side].replace(bySide[side]);
      this.#tombstones[side].clear();
    }
    this.#forgotten = mark;
  }

  /**
   * Every level that changed after `mark`, as it is now, vanished ones with volume 0; undefined when that is no longer
   * known, and only the whole book is right.
   */
  changedSince(mark: Mark): Levels | undefined {
    if (mark < this.#forgotten) return undefined;
    const changed: Record<BookSide, ChainedLevel[]> = { 1: [], 2: [] };
    for (const chain of [this.#present, this.#vanished]) {
      for (let level = chain.newest; level !== undefined && level.mark > mark; level = level.older) {
        changed[level.side].push(level);
      }
    }
    return { buy: changed[1].sort(bestFirst(sides.buy)), sell: changed[2].sort(bestFirst(sides.sell)) };
  }

  #forget(): void {
    const most = Math.max(this.#present.size, this.#tombstonesSpareMax);
    while (this.#vanished.size > most) {
      const oldest = this.#vanished.oldest;
      if (oldest === undefined) return;
      this.#vanished.remove(oldest);
      this.#tombstones[oldest.side].delete(oldest.price);
      this.#forgotten = Math.max(this.#forgotten, oldest.mark);
    }
  }
}
