import fc from "fast-check";
import { expect, it } from "vitest";
import {
  type BookLevel,
  type LiveOrder,
  MarketBook,
  OrderBooks,
  type OrderEvent,
} from "../../src/domain/order-book.js";

const active = 1;
const base: OrderEvent = {
  id: "a",
  marketId: "m",
  side: 1,
  price: "100",
  remaining: 1n,
  timeInForce: 1,
  type: 1,
  status: active,
};

/** A step of a market's life. */
type Step =
  | { readonly kind: "order"; readonly event: OrderEvent }
  | { readonly kind: "expire"; readonly marketId: string; readonly ids: string[] }
  | { readonly kind: "end" }
  | { readonly kind: "restart" };

const ids = fc.constantFrom("a", "b", "c", "d", "B", "aa");
const marketIds = fc.constantFrom("m", "n");
const event = fc.record({
  id: ids,
  marketId: marketIds,
  side: fc.constantFrom(1, 1, 2, 2, 0),
  price: fc.constantFrom("100", "0100", "101", "99", "", "0", "115792089237316195423570985008687907853269984665640"),
  remaining: fc.constantFrom(0n, 1n, 5n, (1n << 63n) - 1n),
  timeInForce: fc.constantFrom(1, 1, 1, 2, 3, 4, 5),
  type: fc.constantFrom(1, 1, 1, 2, 3),
  status: fc.constantFrom(1, 1, 1, 1, 0, 2, 3, 4, 5, 6, 7, 8),
});
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    { weight: 8, arbitrary: event.map((value): Step => ({ kind: "order", event: value })) },
    {
      weight: 1,
      arbitrary: fc
        .record({ marketId: marketIds, ids: fc.array(ids, { maxLength: 5 }) })
        .map((value): Step => ({ kind: "expire", ...value })),
    },
    { weight: 2, arbitrary: fc.constant<Step>({ kind: "end" }) },
    { weight: 1, arbitrary: fc.constant<Step>({ kind: "restart" }) },
  ),
  { maxLength: 60 },
);

/** The rules, as plainly as they can be said: a list of orders, and the book counted anew each time it is asked for. */
class NaiveBooks {
  orders = new Map<string, { marketId: string; side: number; price: bigint; remaining: bigint }>();
  numbers = new Map<string, bigint>();
  published = new Map<string, bigint>();
  atBlockStart = new Map<string, string>();

  order(e: OrderEvent, time: bigint, n: bigint): void {
    if (e.type === 2 || e.timeInForce === 3 || e.timeInForce === 4 || e.status === 0) return;
    this.move(e.marketId, (time / 1000n) * 1000n + n);
    this.orders.delete(e.id);
    const price = BigInt(e.price === "" ? "0" : e.price);
    if (e.status === active && e.remaining > 0n && price > 0n && e.side !== 0) {
      this.orders.set(e.id, { marketId: e.marketId, side: e.side, price, remaining: e.remaining });
    }
  }

  expire(marketId: string, orderIds: string[], time: bigint, n: bigint): void {
    let number = (time / 1000n) * 1000n + n;
    for (const id of [...new Set(orderIds)].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))) {
      if (this.orders.get(id)?.marketId !== marketId) continue;
      this.orders.delete(id);
      this.move(marketId, number);
      number += 1n;
    }
  }

  move(marketId: string, number: bigint): void {
    const held = this.numbers.get(marketId) ?? 0n;
    this.numbers.set(marketId, number > held ? number : held);
  }

  /** `market side price` → `volume orders`. */
  levels(): Map<string, string> {
    const sums = new Map<string, { volume: bigint; orders: bigint }>();
    for (const { marketId, side, price, remaining } of this.orders.values()) {
      const sum = sums.get(`${marketId} ${side} ${price}`) ?? { volume: 0n, orders: 0n };
      sums.set(`${marketId} ${side} ${price}`, { volume: sum.volume + remaining, orders: sum.orders + 1n });
    }
    return new Map([...sums].map(([key, { volume, orders }]) => [key, `${volume} ${orders}`]));
  }

  /** Levels that differ from the block's beginning, vanished ones as `0 0`. */
  end(): Map<string, string> {
    const now = this.levels();
    const changed = new Map<string, string>();
    for (const key of [...now.keys(), ...this.atBlockStart.keys()]) {
      const value = now.get(key) ?? "0 0";
      if (value !== (this.atBlockStart.get(key) ?? "0 0")) changed.set(key, value);
    }
    this.atBlockStart = now;
    for (const marketId of new Set([...changed.keys()].map((key) => key.split(" ")[0] ?? ""))) {
      const before = this.published.get(marketId) ?? 0n;
      const number = this.numbers.get(marketId) ?? 0n;
      const published = number > before ? number : before + 1n;
      this.numbers.set(marketId, published);
      this.published.set(marketId, published);
    }
    return changed;
  }
}

it("does what the rules say, over restarts at any end of a block", () => {
  fc.assert(
    fc.property(steps, (life) => {
      let books = new OrderBooks();
      const naive = new NaiveBooks();
      const live = new Map<string, LiveOrder>();
      const places = new Map<string, { marketId: string; sequenceNumber: bigint; publishedSequenceNumber: bigint }>();
      let time = 1_000_000_000_123_456_789n;
      let n = 0n;
      const end = () => {
        const { markets, orders } = books.endBlock();
        const changed = new Map<string, string>();
        for (const market of markets) {
          places.set(market.marketId, market);
          for (const { side, price, volume, numberOfOrders } of market.levels) {
            changed.set(`${market.marketId} ${side} ${price}`, `${volume} ${numberOfOrders}`);
          }
        }
        for (const [id, order] of orders) {
          if (order === undefined) live.delete(id);
          else live.set(id, order);
        }
        expect(changed).toEqual(naive.end());
        for (const [marketId, number] of naive.numbers) {
          expect(places.get(marketId)).toMatchObject({
            sequenceNumber: number,
            publishedSequenceNumber: naive.published.get(marketId) ?? 0n,
          });
        }
        expect(live.size).toBe(naive.orders.size);
        // Some blocks have the time of the one before.
        time += [1_500_000_000n, 0n, 900n][markets.length % 3] ?? 0n;
        n = 0n;
      };
      for (const step of life) {
        n += 1n;
        if (step.kind === "order") {
          books.apply(step.event, time, n);
          naive.order(step.event, time, n);
        } else if (step.kind === "expire") {
          books.expire(step.marketId, step.ids, time, n);
          naive.expire(step.marketId, step.ids, time, n);
        } else {
          end();
          if (step.kind === "restart") books = OrderBooks.restore([...live.values()], places.values());
        }
      }
      end();
    }),
    { numRuns: 1_000 },
  );
});

it("leaves a level out that changed and came back, and publishes nothing for it, though the number moves", () => {
  const books = new OrderBooks();
  books.apply(base, 5_999n, 1n);
  expect(books.endBlock().markets).toEqual([
    {
      marketId: "m",
      sequenceNumber: 5_001n,
      publishedSequenceNumber: 5_001n,
      levels: [{ side: 1, price: "100", volume: 1n, numberOfOrders: 1n }],
    },
  ]);
  books.apply({ ...base, remaining: 0n, status: 5 }, 7_000n, 1n);
  books.apply({ ...base, id: "b", price: "00100" }, 7_000n, 2n);
  expect(books.endBlock().markets).toEqual([
    {
      marketId: "m",
      sequenceNumber: 7_002n,
      publishedSequenceNumber: 5_001n,
      levels: [],
    },
  ]);
});

it.each([
  ["a snapshot", (levels: readonly BookLevel[]) => new MarketBook("m", 0n, 0n).replace(levels)],
  ["stored levels", (levels: readonly BookLevel[]) => OrderBooks.restore([], [], levels)],
  [
    "stored orders",
    (levels: readonly BookLevel[]) =>
      OrderBooks.restore(
        levels.map((level) => ({ ...level, id: level.price, remaining: level.volume })),
        [],
      ),
  ],
])("takes %s of many levels in any order in about the same time", (_, take) => {
  const levels = Array.from({ length: 100_000 }, (_, index) => {
    return { marketId: "m", side: 1 as const, price: `${1_000_000 + index}`, volume: 5n, numberOfOrders: 1n };
  });
  const msOf = (given: readonly BookLevel[]) => {
    const startedMs = performance.now();
    take(given);
    return performance.now() - startedMs;
  };
  const bestFirstMs = Math.min(msOf(levels.toReversed()), msOf(levels.toReversed()));
  expect(msOf(levels)).toBeLessThan(20 * bestFirstMs);
});
