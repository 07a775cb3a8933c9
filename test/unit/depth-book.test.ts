import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DepthBook } from "../../src/domain/depth-book.js";
import { comparePrices } from "../../src/domain/price.js";
import { TrackedBook } from "../../src/domain/tracked-book.js";
import { runAtOnce } from "../../src/domain/work-pacer.js";

const level = (price: string, volume: bigint) => ({ price, volume, numberOfOrders: volume === 0n ? 0n : 1n });

function update(previous: bigint, sequence: bigint, buy: ReturnType<typeof level>[], sell: typeof buy = []) {
  return { marketId: "m", buy, sell, sequenceNumber: sequence, previousSequenceNumber: previous };
}

test("prices compare as integers, whatever their length and leading zeros", () => {
  const price = fc
    .tuple(fc.bigInt(0n, 10n ** 78n - 1n), fc.nat(3))
    .map(([n, zeros]) => ({ n, text: `${"0".repeat(zeros)}${n}` }));
  fc.assert(
    fc.property(price, price, (a, b) => {
      expect(Math.sign(comparePrices(a.text, b.text))).toBe(a.n < b.n ? -1 : a.n > b.n ? 1 : 0);
    }),
  );
});

describe("a client's book", () => {
  test("begins with a whole book and follows updates", () => {
    const book = new DepthBook("m");
    expect(book.sequenceNumber).toBeUndefined();
    expect(book.apply(update(0n, 10n, [level("9", 1n), level("10", 2n)], [level("100", 1n), level("11", 1n)]))).toBe(
      "applied",
    );
    expect(book.bestBid?.price).toBe("10");
    expect(book.bestOffer?.price).toBe("11");
    expect(book.apply(update(10n, 20n, [level("10", 0n), level("8", 5n)]))).toBe("applied");
    expect(book.buy.map((one) => one.price)).toEqual(["9", "8"]);
    expect(book.sequenceNumber).toBe(20n);
  });

  test.each([
    ["an update that it knows", update(10n, 20n, []), "known"],
    ["an older one", update(5n, 15n, []), "known"],
    ["one that reaches over what it holds", update(10n, 30n, []), "applied"],
    ["the next", update(20n, 30n, []), "applied"],
    ["one after the next", update(30n, 40n, []), "gap"],
    ["a whole book that is newer", update(0n, 40n, []), "applied"],
    ["a whole book that is not", update(0n, 20n, []), "known"],
  ])("at 20, %s", (_, one, outcome) => {
    const book = DepthBook.fromDepth({ marketId: "m", buy: [], sell: [], sequenceNumber: 20n });
    expect(book.apply(one)).toBe(outcome);
  });

  test("a whole book replaces every level", () => {
    const book = DepthBook.fromDepth({ marketId: "m", buy: [level("9", 1n)], sell: [], sequenceNumber: 20n });
    book.apply(update(0n, 30n, [level("7", 1n), level("6", 0n)]));
    expect(book.buy.map((one) => one.price)).toEqual(["7"]);
  });

  test("nothing but a whole book can be the first", () => {
    expect(new DepthBook("m").apply(update(10n, 20n, []))).toBe("gap");
  });

  test("refuses another market's update", () => {
    expect(() => new DepthBook("n").apply(update(0n, 1n, []))).toThrow(
      "an update of market m does not belong into the book of n",
    );
  });
});

describe("a tracked book", () => {
  test("tells what changed since a mark, each level once and the best first", () => {
    const book = new TrackedBook({ tombstonesSpareMax: 1_024 });
    book.set(1, "9", 1n, 1n, 1);
    book.set(1, "10", 1n, 1n, 2);
    book.set(1, "9", 0n, 0n, 3);
    book.set(2, "11", 1n, 1n, 3);
    book.set(2, "11", 4n, 2n, 4);
    const prices = (mark: number) => {
      const changed = book.changedSince(mark);
      return [changed?.buy, changed?.sell].map((side) => side?.map((one) => `${one.price}:${one.volume}`));
    };
    expect(prices(0)).toEqual([["10:1", "9:0"], ["11:4"]]);
    expect(prices(2)).toEqual([["9:0"], ["11:4"]]);
    expect(prices(3)).toEqual([[], ["11:4"]]);
    expect(prices(4)).toEqual([[], []]);
    // It has two levels; a third one has vanished.
    expect([0, 1, 2, 4].map((mark) => book.isSmallerThanChanges(mark))).toEqual([true, true, false, false]);
  });

  test("many levels set at once are the same as one by one", () => {
    const side = fc.constantFrom<1 | 2>(1, 2);
    const price = fc.integer({ min: 1, max: 120 }).map(String);
    const levels = fc.uniqueArray(fc.record({ side, price, volume: fc.bigInt(0n, 3n) }), {
      selector: (one) => `${one.side} ${one.price}`,
      minLength: 1,
      maxLength: 80,
    });
    fc.assert(
      fc.property(fc.array(levels, { minLength: 1, maxLength: 6 }), (blocks) => {
        const [atOnce, oneByOne] = [
          new TrackedBook({ tombstonesSpareMax: 1_024 }),
          new TrackedBook({ tombstonesSpareMax: 1_024 }),
        ];
        for (const [block, changes] of blocks.entries()) {
          const all = changes.map((one) => ({ ...level(one.price, one.volume), side: one.side }));
          atOnce.apply(runAtOnce(atOnce.prepare(all, block + 1)));
          for (const one of changes) {
            oneByOne.set(one.side, one.price, one.volume, one.volume === 0n ? 0n : 1n, block + 1);
          }
        }
        const facts = (book: TrackedBook) =>
          JSON.stringify([book.levels, ...blocks.map((_, mark) => book.changedSince(mark))], (key, value) =>
            key === "older" || key === "newer" ? undefined : typeof value === "bigint" ? String(value) : value,
          );
        expect(facts(atOnce)).toBe(facts(oneByOne));
      }),
    );
  });

  test("remembers as many vanished levels as it may, and says when that is too few", () => {
    const book = new TrackedBook({ tombstonesSpareMax: 2 });
    for (let n = 1; n <= 4; n++) book.set(1, String(n), 0n, 0n, n);
    expect(book.levels).toEqual({ buy: [], sell: [] });
    expect(book.changedSince(1)).toBeUndefined();
    expect(book.isSmallerThanChanges(1)).toBe(true);
    expect(book.changedSince(2)?.buy.map((one) => one.price)).toEqual(["4", "3"]);
  });

  test("knows nothing of the time before it was replaced", () => {
    const book = new TrackedBook({ tombstonesSpareMax: 1_024 });
    book.set(1, "9", 1n, 1n, 1);
    const kept = { side: 2, ...level("5", 1n), mark: 8 } as const;
    const gone = { side: 1, price: "9", volume: 0n, numberOfOrders: 0n, mark: 9 } as const;
    book.apply(runAtOnce(book.prepareWhole([gone, kept], 7, ({ mark }) => mark)));
    expect(book.changedSince(6)).toBeUndefined();
    expect(book.changedSince(7)?.buy.map((one) => one.price)).toEqual(["9"]);
    expect(book.changedSince(8)?.sell).toEqual([]);
    expect(book.changedSince(9)).toEqual({ buy: [], sell: [] });
    expect(book.levels.sell.map((one) => one.price)).toEqual(["5"]);
    expect(book.levels.buy).toEqual([]);
  });
});
