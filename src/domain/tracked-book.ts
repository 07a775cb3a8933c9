import { type DepthLevel, isGone } from "./depth-book.js";
import type { ChangedLevel } from "./order-book.js";
import { type BookSide, bestFirst, type MergedSide, PriceLadder, sides } from "./price-ladder.js";

/** A point in a book's history. Marks never decrease; several changes may share one. */
export type Mark = number;

/** Levels of both sides, best first. */
export interface Levels {
  readonly buy: readonly DepthLevel[];
  readonly sell: readonly DepthLevel[];
}

/** Fewer levels than this are set one by one. */
const mergedMin = 16;

/** Levels between two yields of {@link TrackedBook.prepare}: less than a millisecond. */
const prepareYields = 1_024;

/** A level in one of two lists, ordered by last change: existing levels and vanished ones. */
interface ChainedLevel extends ChangedLevel {
  readonly mark: Mark;
  older: ChainedLevel | undefined;
  newer: ChainedLevel | undefined;
}

/** A change of many levels, ready to be made. */
export type PreparedChange =
  | { readonly mark: Mark; readonly few: readonly ChangedLevel[] }
  | { readonly mark: Mark; readonly merged: readonly MergedSide<ChainedLevel>[] }
  | { readonly forgotten: Mark; readonly whole: readonly ChainedLevel[]; readonly sides: Sides };

/** The levels of both sides, best first. */
type Sides = Readonly<Record<BookSide, readonly ChainedLevel[]>>;

/** A doubly linked list ordered by change. It allocates nothing beside the levels; moving one to the end is O(1). */
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
 * An order book that returns the levels that changed since a mark, at a cost proportional to their number. It remembers
 * vanished levels. When there are more of them than the book has levels plus `tombstonesSpareMax`, the oldest are dropped,
 * and earlier marks get the whole book.
 */
export class TrackedBook {
  readonly #ladders = { 1: new PriceLadder<ChainedLevel>(sides.buy), 2: new PriceLadder<ChainedLevel>(sides.sell) };
  readonly #tombstones = { 1: new Map<string, ChainedLevel>(), 2: new Map<string, ChainedLevel>() };
  readonly #present = new Chain();
  readonly #vanished = new Chain();
  readonly #tombstonesSpareMax: number;
  #forgotten: Mark = 0;

  constructor(options: { readonly tombstonesSpareMax: number }) {
    this.#tombstonesSpareMax = options.tombstonesSpareMax;
  }

  /** The whole book, best prices first. The arrays are valid until the next change. */
  get levels(): Levels {
    return { buy: this.#ladders[1].levels, sell: this.#ladders[2].levels };
  }

  /** Sets a level at `mark`, which must not be below earlier ones. Volume 0 and no orders: it vanished. */
  set(side: BookSide, price: string, volume: bigint, numberOfOrders: bigint, mark: Mark): void {
    const ladder = this.#ladders[side];
    const level = { price, volume, numberOfOrders, side, mark, older: undefined, newer: undefined };
    const before = ladder.get(price);
    if (!isGone(level)) ladder.set(level);
    else if (before !== undefined) ladder.delete(price);
    this.#track(level, before);
    this.#forget();
  }

  /**
   * Does most of the work of setting many levels of distinct prices, in steps: one pass over each side. The book stays
   * as it is until {@link apply}, and must not be changed in between.
   */
  *prepare(levels: readonly ChangedLevel[], mark: Mark): Generator<void, PreparedChange> {
    if (levels.length < mergedMin) return { mark, few: levels };
    const bySide: Record<BookSide, ChainedLevel[]> = { 1: [], 2: [] };
    for (const [index, { side, price, volume, numberOfOrders }] of levels.entries()) {
      if (index % prepareYields === 0) yield;
      bySide[side].push({ price, volume, numberOfOrders, side, mark, older: undefined, newer: undefined });
    }
    const merged: MergedSide<ChainedLevel>[] = [];
    for (const side of [sides.buy, sides.sell]) {
      yield;
      const changes = bySide[side].sort(bestFirst(side));
      merged.push(yield* this.#ladders[side].merge(changes, isGone));
    }
    return { mark, merged };
  }

  /**
   * Prepares to replace all levels, in steps. Vanished levels among them are remembered; changes since marks before
   * `forgotten` are no longer known. `markOf`: when a level last changed.
   */
  *prepareWhole<L extends ChangedLevel>(
    levels: readonly L[],
    forgotten: Mark,
    markOf: (level: L) => Mark,
  ): Generator<void, PreparedChange> {
    const whole: ChainedLevel[] = [];
    for (const [index, level] of levels.entries()) {
      if (index % prepareYields === 0) yield;
      const { side, price, volume, numberOfOrders } = level;
      whole.push({ price, volume, numberOfOrders, side, mark: markOf(level), older: undefined, newer: undefined });
    }
    const sorted = function* (side: BookSide): Generator<void, ChainedLevel[]> {
      yield;
      return whole.filter((level) => level.side === side && !isGone(level)).sort(bestFirst(side));
    };
    const bySide = { 1: yield* sorted(1), 2: yield* sorted(2) };
    yield;
    return { forgotten, whole: whole.sort((a, b) => a.mark - b.mark), sides: bySide };
  }

  /** Makes a prepared change. */
  apply(prepared: PreparedChange): void {
    if ("few" in prepared) {
      const { few, mark } = prepared;
      for (const { side, price, volume, numberOfOrders } of few) this.set(side, price, volume, numberOfOrders, mark);
      return;
    }
    if ("whole" in prepared) {
      this.#forgetAll(prepared.forgotten);
      for (const side of [sides.buy, sides.sell]) this.#ladders[side].adopt({ levels: prepared.sides[side] });
      for (const level of prepared.whole) this.#track(level, undefined);
      this.#forget();
      return;
    }
    for (const [index, side] of [sides.buy, sides.sell].entries()) {
      const merged = prepared.merged[index];
      if (merged === undefined) continue;
      this.#ladders[side].adopt(merged);
      const { changes, before } = merged;
      for (let n = 0; n < changes.length; n++) this.#track(changes[n] as ChainedLevel, before[n]);
    }
    this.#forget();
  }

  /**
   * The levels that changed after `mark`, with their current values; vanished ones have volume 0. Undefined if that is
   * no longer known: use the whole book.
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

  /** Whether it has fewer levels than changed after `mark`, or that is no longer known. */
  isSmallerThanChanges(mark: Mark): boolean {
    if (mark < this.#forgotten) return true;
    let left = this.#present.size;
    for (const chain of [this.#present, this.#vanished]) {
      for (let level = chain.newest; level !== undefined && level.mark > mark; level = level.older) {
        if (--left < 0) return true;
      }
    }
    return false;
  }

  #forgetAll(mark: Mark): void {
    for (const chain of [this.#present, this.#vanished]) {
      chain.newest = undefined;
      chain.oldest = undefined;
      chain.size = 0;
    }
    for (const side of [sides.buy, sides.sell]) this.#tombstones[side].clear();
    this.#forgotten = mark;
  }

  /** Moves a level that was just set to the newest end of its list. */
  #track(level: ChainedLevel, before: ChainedLevel | undefined): void {
    const { side, price } = level;
    const tombstones = this.#tombstones[side];
    if (before !== undefined) this.#present.remove(before);
    const tombstone = tombstones.get(price);
    if (tombstone !== undefined) this.#vanished.remove(tombstone);
    if (isGone(level)) {
      tombstones.set(price, level);
      this.#vanished.push(level);
    } else {
      tombstones.delete(price);
      this.#present.push(level);
    }
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
