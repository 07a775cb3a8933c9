import { beforeAll, describe, expect, it } from "vitest";
import { type Market, Market_State, Market_TradingMode } from "../../gen/vega/markets_pb.js";
import type { MarketData, Trade } from "../../gen/vega/vega_pb.js";
import { Network } from "../../src/simulator/network.js";
import { tries } from "../support/tries.js";
import { frames } from "./recording-frames.js";

const blocks = tries(800);
const options = {
  seed: 3,
  markets: 12,
  profile: "realistic",
  parties: 50,
  ordersPerBlock: 40,
  entriesPerBlock: 0,
} as const;

/** What anyone would believe, from and to. */
const believable: Readonly<Record<string, readonly [number, number]>> = {
  "BTC/USD": [60_000, 68_000],
  "ETH/USD": [2_900, 3_400],
  "EUR/USD": [1.05, 1.12],
  "SOL/USD": [138, 158],
  "XAU/USD": [2_200, 2_500],
  "GBP/USD": [1.23, 1.31],
  "WTI/USD": [73, 84],
  "BTC/EUR": [55_000, 63_000],
  "ETH/EUR": [2_700, 3_100],
  "AVAX/USD": [34, 39],
  "LINK/USD": [16.5, 19],
  "XAU/EUR": [2_000, 2_300],
};

const markets = new Map<string, Market>();
const newest = new Map<string, MarketData>();
const trades: Trade[] = [];

function codeOf(marketId: string): string {
  return markets.get(marketId)?.tradableInstrument?.instrument?.code ?? "";
}

function price(marketId: string, text: string): number {
  return Number(text) / 10 ** Number(markets.get(marketId)?.decimalPlaces);
}

beforeAll(() => {
  const network = new Network(options);
  for (let height = 1; height <= blocks; height++) {
    for (const { event } of frames(network.nextBlock())) {
      if (event.event.case === "marketCreated" || event.event.case === "marketUpdated") {
        markets.set(event.event.value.id, event.event.value);
      }
      if (event.event.case === "marketData") newest.set(event.event.value.market, event.event.value);
      if (event.event.case === "trade" && height > blocks / 2) trades.push(event.event.value);
    }
  }
});

describe("a realistic network", () => {
  it("has the markets that people know, and all of them trade", () => {
    expect([...markets.keys()].map(codeOf).sort()).toEqual(Object.keys(believable).sort());
    for (const { state, tradingMode } of markets.values()) {
      expect([state, tradingMode]).toEqual([Market_State.ACTIVE, Market_TradingMode.CONTINUOUS]);
    }
    expect(new Set(trades.map(({ marketId }) => marketId)).size).toBe(markets.size);
  });

  it("keeps prices where one expects them, for as long as it runs", () => {
    const outliers = trades.filter(({ marketId, price: traded }) => {
      const [low = 0, high = 0] = believable[codeOf(marketId)] ?? [];
      const value = price(marketId, traded);
      return value < low || value > high;
    });
    expect(outliers.map(({ marketId, price: traded }) => `${codeOf(marketId)} at ${traded}`)).toEqual([]);
  });

  it("has narrow spreads, and more stake than it needs", () => {
    for (const data of newest.values()) {
      const [bid, offer] = [data.bestBidPrice, data.bestOfferPrice].map((text) => price(data.market, text));
      const spread = ((offer ?? 0) - (bid ?? 0)) / (bid ?? 1);
      expect({ code: codeOf(data.market), spread, isNarrow: spread > 0 && spread < 0.01 }).toMatchObject({
        isNarrow: true,
      });
      expect(BigInt(data.suppliedStake)).toBeGreaterThan(BigInt(data.targetStake));
    }
  });
});
