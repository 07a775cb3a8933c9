import { midPriceOf, type Quote } from "../../src/domain/quote.js";
import { missing, scaled } from "../format/decimal.js";

/** The exact mid price; it has one decimal more than the market's prices where the best prices add up to an odd number. */
export function midPrice({ midTwice }: Quote, places: number): string {
  if (midTwice === undefined) return missing;
  const mid = midPriceOf(midTwice, places);
  return scaled(mid.price, mid.places);
}
