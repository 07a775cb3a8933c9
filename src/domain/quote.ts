import type { DepthLevel } from "./depth-book.js";

/** The best prices of a book. */
export interface Quote {
  readonly bid: DepthLevel | undefined;
  readonly ask: DepthLevel | undefined;
  /** Twice the mid price, which is an integer; undefined where a side is empty. */
  readonly midTwice: bigint | undefined;
  /** Negative in an auction whose orders cross. */
  readonly spread: bigint | undefined;
}

/** @param buy best first @param sell best first */
export function quoteOf(buy: readonly DepthLevel[], sell: readonly DepthLevel[]): Quote {
  const [bid] = buy;
  const [ask] = sell;
  if (bid === undefined || ask === undefined) return { bid, ask, midTwice: undefined, spread: undefined };
  const [bidPrice, askPrice] = [BigInt(bid.price), BigInt(ask.price)];
  return { bid, ask, midTwice: bidPrice + askPrice, spread: askPrice - bidPrice };
}

/**
 * The exact mid price as an integer and its decimal places: one more than the market's where the best prices add up to
 * an odd number.
 */
export function midPriceOf(midTwice: bigint, places: number): { readonly price: bigint; readonly places: number } {
  return midTwice % 2n === 0n
    ? { price: midTwice / 2n, places }
    : { price: midTwice * 5n, places: Math.max(places, 0) + 1 };
}
