import { describe, expect, it } from "vitest";
import { quoteOf } from "../../src/domain/quote.js";
import { type DepthCurve, depthCurve } from "../../web/books/depth-curve.js";

const places = { price: 2, size: 0 };
const levels = (...prices: number[]) =>
  prices.map((price) => ({ price: String(price), volume: 2n, numberOfOrders: 1n }));

/** The curve of a book with these prices, best first. */
function curve(bids: readonly number[], asks: readonly number[], isWhole = false): DepthCurve {
  const [buy, sell] = [levels(...bids), levels(...asks)];
  return depthCurve({ buy, sell, quote: quoteOf(buy, sell) }, places, isWhole);
}

describe("a depth curve", () => {
  it("leaves out orders that are far away, however much they hold", () => {
    const {
      far,
      levels: all,
      distance,
      share,
      bids,
      asks,
    } = curve([9_990, 9_980, 9_970, 1], [10_010, 10_020, 999_999]);
    expect([far, all]).toEqual([2, 7]);
    expect(distance).toBeCloseTo(0.3);
    expect(share).toBeCloseTo(0.003);
    expect(bids.map(({ volume }) => volume)).toEqual([2, 4, 6, 6]);
    expect(bids.at(-1)?.price).toBeCloseTo(100 - 0.3 * 1.05);
    expect(asks.at(-1)?.price).toBeCloseTo(100 + 0.3 * 1.05);
  });

  it("has all levels on demand", () => {
    const { far, bids, asks } = curve([9_990, 1], [10_010, 999_999], true);
    expect([far, bids.length, asks.length]).toEqual([0, 3, 3]);
  });

  it("leaves out none of a book whose levels are spread evenly, or that has one side, or none", () => {
    expect(curve([90, 80, 70, 60], [110, 120, 130, 140]).far).toBe(0);
    expect(curve([90, 80], [])).toMatchObject({ far: 0, levels: 2, asks: [] });
    expect(curve([100], []).bids.map(({ price }) => price)).toEqual([1, expect.closeTo(1 - 0.01 * 1.05)]);
    expect(curve([], [])).toMatchObject({ far: 0, levels: 0, distance: 0, share: 0 });
  });
});
