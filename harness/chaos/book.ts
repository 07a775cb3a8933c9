import { digestOf, SetDigest } from "./digest.js";

/** A side of a book, as `vega.Side` numbers it. */
export type Side = 1 | 2;

export interface Level {
  readonly price: string;
  readonly volume: bigint;
  readonly orders: bigint;
}

/** One market's price levels, and a digest of them that is cheap to keep. Knows nothing of orders. */
export class Book {
  readonly #sides: Record<Side, Map<string, Level>> = { 1: new Map(), 2: new Map() };
  readonly #digest = new SetDigest();

  /** The same levels give the same digest, in whatever order they came. */
  get digest(): string {
    return this.#digest.value;
  }

  get(side: Side, price: string): Level | undefined {
    return this.#sides[side].get(price);
  }

  /** Sets a level; without orders it goes. */
  set(side: Side, level: Level): void {
    const levels = this.#sides[side];
    const before = levels.get(level.price);
    if (before !== undefined) this.#digest.remove(levelText(side, before));
    if (level.orders === 0n && level.volume === 0n) {
      levels.delete(level.price);
      return;
    }
    levels.set(level.price, level);
    this.#digest.add(levelText(side, level));
  }

  clear(): void {
    for (const side of [1, 2] as const) {
      for (const level of [...this.#sides[side].values()]) this.set(side, { ...level, volume: 0n, orders: 0n });
    }
  }

  /** The best `count` levels of each side: buy by price descending, sell ascending. */
  best(count: number): { readonly buy: Level[]; readonly sell: Level[] } {
    const descending = (a: Level, b: Level) => compare(b.price, a.price);
    const ascending = (a: Level, b: Level) => compare(a.price, b.price);
    return {
      buy: [...this.#sides[1].values()].sort(descending).slice(0, count),
      sell: [...this.#sides[2].values()].sort(ascending).slice(0, count),
    };
  }
}

/** A digest of levels in the order given. */
export function orderedDigest(buy: readonly Level[], sell: readonly Level[]): string {
  const texts = [...buy.map((level) => levelText(1, level)), ...sell.map((level) => levelText(2, level))];
  return digestOf(texts.join(" "));
}

function levelText(side: Side, { price, volume, orders }: Level): string {
  return `${side}@${price}=${volume}/${orders}`;
}

/** Decimal text without leading zeros, compared as integers. */
function compare(a: string, b: string): number {
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : a > b ? 1 : 0;
}
