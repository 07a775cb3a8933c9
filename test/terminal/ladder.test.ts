import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { grouped, scaled } from "../../src/domain/decimal-text.js";
import { printable } from "../../src/domain/printable.js";
import { ladderLines } from "../../src/terminal/ladder.js";
import { styleOf } from "../../src/terminal/style.js";

const level = (price: bigint, volume: bigint) => ({ price: String(price), volume, numberOfOrders: 1n });
const amount = fc.bigInt({ min: 0n, max: 2n ** 63n - 1n });
const price = fc.bigInt({ min: 1n, max: 10n ** 77n });

/** Levels of distinct prices, ascending. */
const side = fc.uniqueArray(fc.tuple(price, amount), { selector: ([p]) => p, maxLength: 12 }).map((levels) => {
  const ascending = levels.sort(([a], [b]) => (a < b ? -1 : 1));
  return ascending.map(([p, v]) => level(p, v));
});

describe("a ladder", () => {
  it("fits its terminal, has exact amounts, and each line tells the sum up to it", () => {
    fc.assert(
      fc.property(
        side,
        side,
        fc.integer({ min: 1, max: 10 }),
        fc.integer({ min: 1, max: 400 }),
        fc.record({ price: fc.integer({ min: 0, max: 18 }), size: fc.integer({ min: -3, max: 6 }) }),
        (bids, sell, levels, columns, places) => {
          const buy = bids.toReversed();
          const book = { buy, sell, places, isFlashing: () => false };
          const lines = ladderLines(book, levels, columns, styleOf(false));
          expect(lines).toHaveLength(2 * levels + 2);
          const asks = sell.slice(0, levels);
          const whole = ladderLines(book, levels, Number.POSITIVE_INFINITY, styleOf(false));
          const shown = whole.slice(1, levels + 1).filter((line) => line !== "");
          const sums = asks.map((_, n) => asks.slice(0, n + 1).reduce((sum, { volume }) => sum + volume, 0n));
          const text = (value: bigint | string, decimals: number) => scaled(value, decimals, ",");
          const expected = asks.map((ask, n) =>
            [text(ask.price, places.price), text(ask.volume, places.size), text(sums[n] ?? 0n, places.size), "1"].join(
              " ",
            ),
          );
          expect(shown.map((line) => line.trim().replaceAll(/ +/g, " "))).toEqual(expected.toReversed());
          const widest = Math.max(...buy.concat(sell).map((one) => text(one.price, places.price).length), 5);
          // A price is never cut; all else gives way to it.
          const levelLines = [...lines.slice(0, levels + 1), ...lines.slice(levels + 2)];
          for (const line of levelLines) expect(line.length).toBeLessThanOrEqual(Math.max(columns, widest));
        },
      ),
    );
  });

  it("has every level of a large book", () => {
    const count = 80_000;
    const [sell, bids] = [1, 0].map((first) =>
      Array.from({ length: count }, (_, n) => level(BigInt(first * count + n + 1), 1n)),
    );
    const book = {
      buy: bids?.toReversed() ?? [],
      sell: sell ?? [],
      places: { price: 0, size: 0 },
      isFlashing: () => false,
    };
    const lines = ladderLines(book, count, Number.POSITIVE_INFINITY, styleOf(false));
    expect(lines).toHaveLength(2 * count + 2);
    expect([lines[1], lines.at(-1)].map((line) => line?.trim().replaceAll(/ +/g, " "))).toEqual([
      "160,000 1 80,000 1",
      "1 1 80,000 1",
    ]);
  });

  it("says which side is empty", () => {
    const lineOf = (buy: number, sell: number) => {
      const levels = (count: number) => Array.from({ length: count }, () => level(5n, 1n));
      const book = { buy: levels(buy), sell: levels(sell), places: { price: 0, size: 0 }, isFlashing: () => false };
      return ladderLines(book, 1, 80, styleOf(false))[2];
    };
    expect([lineOf(0, 0), lineOf(0, 1), lineOf(1, 0)].map((line) => line?.replaceAll("─", ""))).toEqual([
      " no orders ",
      " no bids ",
      " no asks ",
    ]);
  });

  it("marks sides and changes only where there are colours", () => {
    const book = {
      buy: [level(4n, 1n)],
      sell: [level(5n, 1n)],
      places: { price: 0, size: 0 },
      isFlashing: (one: "buy" | "sell") => one === "sell",
    };
    const [, ask, , bid] = ladderLines(book, 1, 80, (text, ...emphases) => `${emphases.join("+")}:${text}`);
    expect(ask).toMatch(/^red\+bold\+inverse: /);
    expect(bid).toMatch(/^green: /);
  });
});

describe("text", () => {
  it("of others cannot steer the terminal", () => {
    expect(printable("a\u001b[2Jb\u0000\u009b1m\u2028\u202e\u{1f600} é")).toBe(
      "a\ufffd[2Jb\ufffd\ufffd1m\ufffd\ufffd\u{1f600} é",
    );
  });

  it("of integers is scaled and grouped exactly", () => {
    expect([scaled("1234567", 2, ","), scaled(-5n, 3, ","), scaled("0", -2, ","), scaled(12n, -3, ",")]).toEqual([
      "12,345.67",
      "-0.005",
      "0",
      "12,000",
    ]);
    expect(grouped("1234", "")).toBe("1234");
  });
});
