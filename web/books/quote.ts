import type { DepthLevel } from "../../src/domain/depth-book.js";
import { missing, scaled } from "../format/decimal.js";

/** The best prices of a book. Every panel takes them from here, so that no two disagree. */
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

/** The exact mid price; it has one decimal more than the market's prices where the best prices add up to an odd number. */
export function midPrice({ midTwice }: Quote, places: number): string {
  if (midTwice === undefined) return missing;
  return midTwice % 2n === 0n ? scaled(midTwice / 2n, places) : scaled(midTwice * 5n, Math.max(places, 0) + 1);
}
