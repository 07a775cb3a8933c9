import { comparePrices } from "./price.js";

/** The sides of a book, by the numbers of `vega.Side`. */
export const sides = { buy: 1, sell: 2 } as const;

/** One of {@link sides}. */
export type BookSide = (typeof sides)[keyof typeof sides];

/** Compares levels of a side, best price first: buy by price descending, sell ascending. */
export function bestFirst(side: BookSide): (a: { readonly price: string }, b: { readonly price: string }) => number {
  return side === sides.buy ? (a, b) => comparePrices(b.price, a.price) : (a, b) => comparePrices(a.price, b.price);
}

/** Buys before sells, each side best first. */
export function sortLevels<L extends { readonly side: BookSide; readonly price: string }>(levels: readonly L[]): L[] {
  const of = (side: BookSide) => levels.filter((level) => level.side === side).sort(bestFirst(side));
  return levels.length < 2 ? [...levels] : [...of(sides.buy), ...of(sides.sell)];
}

/** Changes between two yields of {@link PriceLadder.merge}: less than a millisecond. */
const mergeYields = 512;

/** What a merge made of a side. */
export interface MergedSide<L> {
  readonly levels: readonly L[];
  readonly changes: readonly L[];
  /** What was at the price of each change. */
  readonly before: readonly (L | undefined)[];
}

/** One side of a book: levels of distinct prices, best first. */
export class PriceLadder<L extends { readonly price: string }> {
  readonly #compare: (a: { readonly price: string }, b: { readonly price: string }) => number;
  #levels: L[] = [];

  constructor(side: BookSide) {
    this.#compare = bestFirst(side);
  }

  /** The levels, best first. The ladder's own array: do not change it or keep it over a change. */
  get levels(): readonly L[] {
    return this.#levels;
  }

  /** The level at a price, or undefined. */
  get(price: string): L | undefined {
    const index = this.#search(price);
    return index < 0 ? undefined : this.#levels[index];
  }

  /** Sets the level at its price. */
  set(level: L): void {
    const index = this.#search(level.price);
    if (index < 0) this.#levels.splice(-index - 1, 0, level);
    else this.#levels[index] = level;
  }

  /** Removes the level at a price, if there is one. */
  delete(price: string): void {
    const index = this.#search(price);
    if (index >= 0) this.#levels.splice(index, 1);
  }

  /** Replaces all levels by these, in any order, of distinct prices. */
  replace(levels: readonly L[]): void {
    this.#levels = [...levels].sort(this.#compare);
  }

  /**
   * This side with levels of distinct prices set, best first, or deleted where they are gone, in one pass: many single
   * changes would each move half of it. The ladder stays as it is until {@link adopt}. Yields now and then.
   */
  *merge(changes: readonly L[], isGone: (level: L) => boolean): Generator<void, MergedSide<L>> {
    const levels = this.#levels;
    const merged: L[] = [];
    const before: (L | undefined)[] = [];
    let next = 0;
    for (const level of changes) {
      if (before.length % mergeYields === 0) yield;
      const found = this.#search(level.price, next);
      const index = found < 0 ? -found - 1 : found;
      while (next < index) merged.push(levels[next++] as L);
      before.push(found < 0 ? undefined : levels[next++]);
      if (!isGone(level)) merged.push(level);
    }
    while (next < levels.length) merged.push(levels[next++] as L);
    return { levels: merged, changes, before };
  }

  /** Holds the levels of a merge, or others that are best first, from now on. */
  adopt({ levels }: Pick<MergedSide<L>, "levels">): void {
    this.#levels = levels as L[];
  }

  /** The index of a price, or -(where it belongs) - 1. */
  #search(price: string, from = 0): number {
    const wanted = { price };
    let low = from;
    let high = this.#levels.length - 1;
    while (low <= high) {
      const middle = (low + high) >>> 1;
      const level = this.#levels[middle];
      if (level === undefined) break;
      const order = this.#compare(level, wanted);
      if (order === 0) return middle;
      if (order < 0) low = middle + 1;
      else high = middle - 1;
    }
    return -low - 1;
  }
}
