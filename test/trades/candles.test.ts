import type { JsonObject } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { firstIdOfBlock } from "../../src/domain/block-position.js";
import { numberCursors, placeCursors } from "../../src/domain/cursor.js";
import { Network } from "../../src/simulator/network.js";
import { Random } from "../../src/simulator/random.js";
import { openDatabase } from "../../src/store/database.js";
import { verify } from "../../src/verify/verify.js";
import { ApiCaller } from "../support/api-caller.js";
import { newDatabaseUrl } from "../support/database.js";
import { loadRecording } from "../support/load-recording.js";
import { RecordingBuilder } from "../support/recording.js";
import { tries } from "../support/tries.js";
import { realRecording, wholeBlocks } from "./trade-model.js";

/* ListCandleIntervals and ListCandleData against a fold of the trades of a recording. */

const second = 1_000_000_000n;
const intervals: Readonly<Record<string, bigint>> = {
  block: 0n,
  "1 minute": 60n * second,
  "5 minutes": 300n * second,
  "15 minutes": 900n * second,
  "1 hour": 3_600n * second,
  "6 hours": 21_600n * second,
  "1 day": 86_400n * second,
};

/** A trade of a market, and what its numbers mean. */
interface ScaledTrade {
  readonly height: bigint;
  readonly timeNs: bigint;
  readonly price: string;
  readonly size: bigint;
  readonly scale: string;
}

/** The trades of each market, in order. */
function tradesByMarket(recording: Uint8Array): Map<string, ScaledTrade[]> {
  const scales = new Map<string, string>();
  const trades = new Map<string, ScaledTrade[]>();
  for (const { height, timeNs, events } of wholeBlocks(recording)) {
    for (const { case: kind, value } of events) {
      if (kind === "marketCreated" || kind === "marketUpdated") {
        scales.set(value.id, `${value.decimalPlaces} ${value.positionDecimalPlaces}`);
      }
      if (kind !== "trade") continue;
      const { marketId, price, size } = value;
      const trade = { height, timeNs, price, size, scale: scales.get(marketId) ?? "" };
      trades.set(marketId, [...(trades.get(marketId) ?? []), trade]);
    }
  }
  return trades;
}

/** The candles of one interval: trades of one period and scale that follow each other. */
function candlesOf(trades: readonly ScaledTrade[], periodNs: bigint): JsonObject[] {
  const startOf = ({ timeNs }: ScaledTrade) => (periodNs === 0n ? timeNs : (timeNs / periodNs) * periodNs);
  const keyOf = (trade: ScaledTrade) => `${startOf(trade)} ${trade.scale} ${periodNs === 0n ? trade.height : ""}`;
  const groups: ScaledTrade[][] = [];
  for (const trade of trades) {
    const [first] = groups.at(-1) ?? [];
    if (first !== undefined && keyOf(first) === keyOf(trade)) groups.at(-1)?.push(trade);
    else groups.push([trade]);
  }
  return groups.map((group) => {
    const [first, last] = [group[0], group.at(-1)];
    if (first === undefined || last === undefined) throw new Error("no group is empty");
    const byPrice = group.map(({ price }) => price).sort((a, b) => (BigInt(a) < BigInt(b) ? -1 : 1));
    const [low = "", high = ""] = [byPrice[0], byPrice.at(-1)];
    const volume = group.reduce((sum, { size }) => sum + size, 0n);
    const prices = { high, low, open: first.price, close: last.price };
    return { start: `${startOf(first)}`, lastUpdate: `${last.timeNs}`, ...prices, volume: `${volume}` };
  });
}

/** Blocks that are 20 s apart, so that there are many periods; the busiest market gets other decimals in between. */
function simulated(blocks: number): Buffer[] {
  const options = { seed: 21, markets: 5, parties: 10, ordersPerBlock: 10, entriesPerBlock: 0 };
  const network = new Network({ ...options, blockIntervalNs: 20n * second });
  return Array.from({ length: blocks }, (_, index) => {
    if (index % 100 === 57) network.redefine();
    return Buffer.from(network.nextBlock());
  });
}

const blocks = simulated(500);
const networks: [string, Uint8Array | undefined][] = [
  ["a simulated network", Buffer.concat(blocks)],
  ["the recording of a real network", realRecording()],
];

describe.each(networks.filter(([, recording]) => recording !== undefined))("%s", (_, recording = new Uint8Array()) => {
  const { url } = newDatabaseUrl();
  const trades = tradesByMarket(recording);
  let api: ApiCaller;
  let markets: string[];

  beforeAll(async () => {
    await loadRecording(url, recording);
    api = await ApiCaller.open(url);
    markets = (await api.page("ListMarkets")).edges.map(({ node }) => String(node["id"]));
  });

  afterAll(() => api.opened.close());

  test("gives the candles of each market and interval, in both orders and directions", async () => {
    let all = 0;
    for (const marketId of markets) {
      const listed = await api.json<{ intervalToCandleId: { interval: string; candleId: string }[] }>(
        "ListCandleIntervals",
        { marketId },
      );
      const expectedIds = Object.keys(intervals).map((interval) => {
        return { interval, candleId: `trades_candle_${interval.replaceAll(" ", "_")}_${marketId}` };
      });
      expect(listed.intervalToCandleId).toEqual(expectedIds);
      for (const { interval, candleId } of expectedIds) {
        const expected = candlesOf(trades.get(marketId) ?? [], intervals[interval] ?? 0n);
        all += expected.length;
        const order = { backwards: all % 2 === 0 };
        const size = Math.max(3, Math.ceil(expected.length / 4));
        const found = await api.pageThrough("ListCandleData", { candleId }, size, { ...order, newestFirst: false });
        expect(found, candleId).toEqual(expected);
        expect(await api.pageThrough("ListCandleData", { candleId }, 1_000, order)).toEqual(expected.toReversed());
      }
    }
    expect(all).toBeGreaterThan(50);
  });

  test("gives those whose periods begin in a range", async () => {
    const random = new Random(1, "ranges");
    for (let i = 0; i < tries(40); i++) {
      const marketId = random.pick(markets);
      const interval = random.pick(Object.keys(intervals));
      const expected = candlesOf(trades.get(marketId) ?? [], intervals[interval] ?? 0n);
      const [low, high] = [random.below(expected.length + 1), random.below(expected.length + 1)].sort((a, b) => a - b);
      const from = BigInt(String(expected[low ?? 0]?.["start"] ?? 1)) + BigInt(random.below(2));
      const to = from + BigInt(random.below(1 + (high ?? 0))) * 40n * second;
      const candleId = `trades_candle_${interval.replaceAll(" ", "_")}_${marketId}`;
      const request = { candleId, fromTimestamp: `${from}`, toTimestamp: `${to}` };
      const inRange = expected.filter(({ start }) => BigInt(String(start)) >= from && BigInt(String(start)) < to);
      expect(await api.pageThrough("ListCandleData", request, 7, { newestFirst: false })).toEqual(inRange);
    }
  });
});

describe("candles", () => {
  const { url } = newDatabaseUrl();
  let api: ApiCaller;

  afterAll(() => api.opened.close());

  test("end where their volume would exceed 64 bits, and at the end of a block", async () => {
    const most = (1n << 64n) - 1n;
    const builder = new RecordingBuilder().block(1, 5n, (r) => {
      r.market("m", { decimalPlaces: 1n });
      r.trade({ id: "a", marketId: "m", price: "10", size: most - 1n });
      r.trade({ id: "b", marketId: "m", price: "9", size: 1n });
      r.trade({ id: "c", marketId: "m", price: "8", size: 1n });
      r.market("m", { decimalPlaces: 2n });
      r.trade({ id: "d", marketId: "m", price: "70", size: 1n });
    });
    // Another block of the same time.
    builder.block(2, 5n, (r) => r.trade({ id: "e", marketId: "m", price: "71", size: 2n }));
    await loadRecording(url, builder.bytes());
    api = await ApiCaller.open(url);
    const brief = async (interval: string) => {
      const request = { candleId: `trades_candle_${interval}_m`, pagination: { newestFirst: false } };
      const { edges } = await api.page("ListCandleData", request);
      return edges.map(({ node }) => [node["open"], node["close"], node["volume"]].join(" "));
    };
    expect(await brief("1_minute")).toEqual([`10 9 ${most}`, "8 8 1", "70 71 3"]);
    expect(await brief("block")).toEqual([`10 9 ${most}`, "8 8 1", "70 70 1", "71 71 2"]);
  });

  test.each(["block", "1_minute"])("of the interval %s may be asked for from before 1970", async (interval) => {
    const candleId = `trades_candle_${interval}_m`;
    const all = await api.page("ListCandleData", { candleId });
    for (const fromTimestamp of ["-1", `${-(1n << 63n)}`]) {
      expect(await api.page("ListCandleData", { candleId, fromTimestamp })).toEqual(all);
    }
    const before = { candleId, fromTimestamp: "-2", toTimestamp: "-1" };
    expect((await api.page("ListCandleData", before)).edges).toEqual([]);
  });

  test.each([
    [{ candleId: "" }, "invalid_argument", "INVALID_CANDLE_ID"],
    [{ candleId: "trades_candle_2_minutes_m" }, "invalid_argument", "INVALID_CANDLE_ID"],
    [{ candleId: "trades_candle_1_minute_" }, "invalid_argument", "INVALID_CANDLE_ID"],
    [{ candleId: "trades_candle_1_minute_caf\u00e9" }, "invalid_argument", "INVALID_IDENTIFIER"],
    [{ candleId: "trades_candle_1_minute_nowhere" }, "not_found", "MARKET_UNKNOWN"],
    [
      { candleId: "trades_candle_block_m", fromTimestamp: "2", toTimestamp: "1" },
      "invalid_argument",
      "INVALID_DATE_RANGE",
    ],
  ])("%j is %s, %s", async (request, code, reason) => {
    expect(await api.failure("ListCandleData", request)).toEqual({ code, reason });
  });
});

test("candles of markets whose ids differ in case only are verified", async () => {
  const { url } = newDatabaseUrl();
  const builder = new RecordingBuilder().block(1, 5n, (r) => {
    for (const marketId of ["Aa", "aA"]) r.market(marketId).trade({ id: marketId, marketId, price: "10", size: 1n });
  });
  await loadRecording(url, builder.bytes());
  const database = openDatabase(url);
  expect((await verify(database)).findings.listed).toEqual([]);
  await database.close();
});

test("a period that began before trades were kept has no candle, and asking for it fails", async () => {
  const { url } = newDatabaseUrl();
  await loadRecording(url, Buffer.concat(blocks.slice(0, 250)));
  const database = openDatabase(url);
  // As after blocks of a release that keeps no trades.
  await database.withConnection((connection) => connection.run("UPDATE trade_progress SET stream_sequence = 1"));
  const [place] = await database.query<{ timeNs: bigint }>("SELECT block_time_ns AS timeNs FROM progress");
  await database.close();
  await loadRecording(url, Buffer.concat(blocks));
  const api = await ApiCaller.open(url);
  const lost = place?.timeNs ?? 0n;
  const trades = tradesByMarket(Buffer.concat(blocks));
  for (const { node } of (await api.page("ListMarkets")).edges) {
    for (const interval of ["block", "1_minute", "1_hour"]) {
      const candleId = `trades_candle_${interval}_${node["id"]}`;
      const periodNs = intervals[interval.replaceAll("_", " ")] ?? 0n;
      const expected = candlesOf(trades.get(String(node["id"])) ?? [], periodNs);
      const kept = expected.filter(({ start }) => BigInt(String(start)) > lost);
      expect(await api.pageThrough("ListCandleData", { candleId }, 1_000, { newestFirst: false })).toEqual(kept);
      const failure = await api.failure("ListCandleData", { candleId, fromTimestamp: `${lost}` });
      expect(failure).toEqual({ code: "failed_precondition", reason: "TRADES_NOT_RETAINED" });
    }
  }
  await api.opened.close();
});

test("a cursor of a candle or an account that this server lacks is no page, because another may have it", async () => {
  const { url } = newDatabaseUrl();
  const recording = new RecordingBuilder().block(1, second, (r) =>
    r.market("m").trade({ id: "t", marketId: "m", price: "5", size: 1n }).transfer({}),
  );
  await loadRecording(url, recording.bytes());
  const api = await ApiCaller.open(url);
  const cursors = placeCursors<readonly [bigint, bigint]>(
    "candles",
    (place) => place,
    (...place) => place,
  );
  const after = cursors.encode([second, firstIdOfBlock(2n)]);
  const candles = { candleId: "trades_candle_block_m", pagination: { after } };
  expect((await api.failure("ListCandleData", candles)).reason).toBe("DATABASE_BEHIND");
  for (const newestFirst of [true, false]) {
    const accounts = { pagination: { newestFirst, after: numberCursors("accounts").encode(99n) } };
    expect((await api.failure("ListAccounts", accounts)).reason).toBe("DATABASE_BEHIND");
  }
  await api.opened.close();
});
