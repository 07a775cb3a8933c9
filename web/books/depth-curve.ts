import type { DepthLevel } from "../../src/domain/depth-book.js";
import type { Quote } from "../../src/domain/quote.js";
import { approximate, type Places } from "../format/decimal.js";

/** Levels of a side that are drawn. */
const levelsMax = 400;
/**
 * Levels are far if they are further from the mid price than the middle half of all by three times what that half
 * spans: Tukey's outer fence. One order at a price that nobody expects doesn't hide all others then.
 */
const fence = 3;
/** Fewer levels have no middle half. */
const quartiles = 4;
/** What is shown of a book of a single price, as a part of it. */
const singlePriceShare = 0.01;
/** What is shown goes on beyond the last level, as a part of its distance. */
const margin = 1.05;

/** A price, and the volume between it and the mid price. For drawing only. */
interface DepthPoint {
  readonly price: number;
  readonly volume: number;
}

/** What a depth chart shows. */
export interface DepthCurve {
  /** Best first. */
  readonly bids: readonly DepthPoint[];
  /** Best first. */
  readonly asks: readonly DepthPoint[];
  /** Levels that are further away than {@link distance}, and all levels. */
  readonly far: number;
  readonly levels: number;
  /** The largest distance from the middle that is shown, and that as a part of the middle; 0: the book is empty. */
  readonly distance: number;
  readonly share: number;
}

interface Book {
  /** Best first. */
  readonly buy: readonly DepthLevel[];
  /** Best first. */
  readonly sell: readonly DepthLevel[];
  readonly quote: Quote;
}

/** Cumulative volumes of a book: of all its levels, or of those that are not far from the mid price. */
export function depthCurve({ buy, sell, quote }: Book, places: Places, isWhole: boolean): DepthCurve {
  const best = quote.bid ?? quote.ask;
  const middle =
    quote.midTwice === undefined
      ? approximate(best?.price ?? "0", places.price)
      : approximate(quote.midTwice, places.price) / 2;
  const [bids, asks] = [cumulative(buy, places), cumulative(sell, places)];
  const distances = [...bids, ...asks].map(({ price }) => Math.abs(price - middle)).sort((a, b) => a - b);
  const distance = isWhole ? (distances.at(-1) ?? 0) : nearDistance(distances);
  const shown = distance || middle * singlePriceShare;
  const near = (points: readonly DepthPoint[]) => points.filter(({ price }) => Math.abs(price - middle) <= distance);
  return {
    bids: toEdge(near(bids), middle - shown * margin),
    asks: toEdge(near(asks), middle + shown * margin),
    far: distances.filter((each) => each > distance).length,
    levels: distances.length,
    distance,
    share: middle === 0 ? 0 : distance / middle,
  };
}

function cumulative(levels: readonly DepthLevel[], { price, size }: Places): DepthPoint[] {
  let sum = 0n;
  return levels.slice(0, levelsMax).map((level) => {
    sum += level.volume;
    return { price: approximate(level.price, price), volume: approximate(sum, size) };
  });
}

/** @param distances in ascending order */
function nearDistance(distances: readonly number[]): number {
  if (distances.length < quartiles) return distances.at(-1) ?? 0;
  const at = (share: number) => distances[Math.floor(share * (distances.length - 1))] ?? 0;
  const most = at(3 / 4) + fence * (at(3 / 4) - at(1 / 4));
  return distances.findLast((each) => each <= most) ?? 0;
}

/** The line goes on to the edge of what is shown, so that both sides have the same width. */
function toEdge(points: readonly DepthPoint[], edge: number): readonly DepthPoint[] {
  const last = points.at(-1);
  return last === undefined ? points : [...points, { price: edge, volume: last.volume }];
}
