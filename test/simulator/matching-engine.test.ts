import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Side } from "../../gen/vega/vega_pb.js";
import { anyPrice, type BookOrder, MatchingEngine } from "../../src/simulator/matching-engine.js";

let made = 0;

function order(side: Side, price: number, remaining: number, party = `party-${made}`): BookOrder {
  made += 1;
  return { id: `order-${made}`, party, side, price, remaining, pegged: false };
}

/** An order that trades what it can and rests with what is left. */
function send(engine: MatchingEngine<BookOrder>, incoming: BookOrder): number {
  const traded = engine.match(incoming).reduce((sum, fill) => sum + fill.size, 0);
  if (incoming.remaining > 0 && !engine.wouldCross(incoming.side, incoming.price)) engine.add(incoming);
  return traded;
}

function volumeOf(engine: MatchingEngine<BookOrder>): number {
  return [Side.BUY, Side.SELL]
    .flatMap((side) => engine.side(side))
    .reduce((sum, level) => sum + level.orders.reduce((total, { remaining }) => total + remaining, 0), 0);
}

const anyOrder = fc.record({
  side: fc.constantFrom(Side.BUY, Side.SELL),
  price: fc.integer({ min: 90, max: 110 }),
  size: fc.integer({ min: 1, max: 50 }),
  party: fc.constantFrom("a", "b", "c"),
});

describe("the matching engine", () => {
  it("never crosses, keeps its levels in order, and loses no volume", () => {
    fc.assert(
      fc.property(fc.array(anyOrder, { maxLength: 60 }), (wishes) => {
        const engine = new MatchingEngine<BookOrder>();
        let resting = 0;
        for (const { side, price, size, party } of wishes) {
          const incoming = order(side, price, size, party);
          const traded = send(engine, incoming);
          const rests = engine.side(side).some((level) => level.orders.includes(incoming));
          resting += (rests ? incoming.remaining : 0) - traded;
          expect(volumeOf(engine)).toBe(resting);
          const bid = engine.best(Side.BUY);
          const offer = engine.best(Side.SELL);
          expect(bid.volume === 0 || offer.volume === 0 || bid.price < offer.price).toBe(true);
        }
        const [buy, sell] = [engine.side(Side.BUY), engine.side(Side.SELL)].map((levels) => levels.map((l) => l.price));
        expect(buy).toEqual([...(buy ?? [])].sort((one, other) => other - one));
        expect(sell).toEqual([...(sell ?? [])].sort((one, other) => one - other));
      }),
    );
  });

  it("trades the best price first, and the oldest order first at one price", () => {
    const engine = new MatchingEngine<BookOrder>();
    const [worse, first, second] = [order(Side.SELL, 101, 5), order(Side.SELL, 100, 5), order(Side.SELL, 100, 5)];
    for (const each of [worse, first, second]) engine.add(each);
    const fills = engine.match(order(Side.BUY, 101, 12));
    expect(fills.map(({ passive, price, size }) => [passive.id, price, size])).toEqual([
      [first.id, 100, 5],
      [second.id, 100, 5],
      [worse.id, 101, 2],
    ]);
    expect(engine.best(Side.SELL)).toMatchObject({ price: 101, volume: 3 });
  });

  it("stops before an order of the same party, and knows that beforehand", () => {
    const engine = new MatchingEngine<BookOrder>();
    engine.add(order(Side.SELL, 100, 5, "other"));
    engine.add(order(Side.SELL, 101, 5, "self"));
    const incoming = order(Side.BUY, anyPrice(Side.BUY), 8, "self");
    expect(engine.fillable(incoming)).toBe(5);
    expect(engine.match(incoming).map((fill) => fill.size)).toEqual([5]);
    expect(incoming.remaining).toBe(3);
  });

  it("ends an auction at one price that every order of a pair accepts, with the volume it announced", () => {
    fc.assert(
      fc.property(fc.array(anyOrder, { maxLength: 60 }), (wishes) => {
        const engine = new MatchingEngine<BookOrder>();
        for (const { side, price, size, party } of wishes) engine.add(order(side, price, size, party));
        const indicative = engine.indicative();
        const pairs = engine.uncross();
        expect(pairs.reduce((sum, pair) => sum + pair.size, 0)).toBe(indicative?.volume ?? 0);
        for (const { buy, sell } of pairs) {
          expect(buy.price).toBeGreaterThanOrEqual(indicative?.price ?? 0);
          expect(sell.price).toBeLessThanOrEqual(indicative?.price ?? 0);
        }
        expect(engine.indicative()).toBeUndefined();
      }),
    );
  });

  it("does not count pegged orders for the static prices", () => {
    const engine = new MatchingEngine<BookOrder>();
    engine.add(order(Side.BUY, 99, 5));
    engine.add({ ...order(Side.BUY, 100, 7), pegged: true });
    expect(engine.best(Side.BUY)).toMatchObject({ price: 100, volume: 7 });
    expect(engine.bestStatic(Side.BUY)).toEqual({ price: 99, volume: 5 });
  });

  it("refuses to take out what does not rest in it", () => {
    const engine = new MatchingEngine<BookOrder>();
    expect(() => engine.remove(order(Side.BUY, 1, 1))).toThrow(/^order order-\d+ does not rest in this book$/);
  });
});
