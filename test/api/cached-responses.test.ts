import { fromBinary, toJson } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createApi } from "../../src/api/api.js";
import type { EncodedResponse } from "../../src/domain/encoded-response.js";
import { Failure } from "../../src/domain/failure.js";
import type { Api, Call, ResponseStream } from "../../src/domain/service.js";
import { jsonWriteOptions } from "../../src/encoding/json-encoder.js";
import { History } from "../../src/history/history.js";
import { LedgerReader } from "../../src/ledger/ledger-reader.js";
import { Live } from "../../src/live/live.js";
import { createLog } from "../../src/telemetry/log.js";
import { createMetrics } from "../../src/telemetry/metrics.js";
import { MarketFixture } from "../live/market-fixture.js";

const call: Call = { signal: new AbortController().signal, clientAddress: "10.0.0.1", requestHeaders: {} };
let fixture: MarketFixture;
let live: Live;
let twin: Live;
let api: Api;
let twinApi: Api;

function serve(on: Live): Api {
  const { database } = fixture;
  const log = createLog("silent");
  const history = new History({ database, live: on, log });
  return createApi({ live: on, database, ledger: new LedgerReader(database), history, log });
}

async function follow(): Promise<Live> {
  const limits = { pollIntervalMs: 2, depthResponsesMax: 3, listResponsesMax: 3 };
  return await Live.start({ database: fixture.database, log: createLog("silent"), metrics: createMetrics(), limits });
}

beforeAll(async () => {
  fixture = await MarketFixture.create();
  await fixture.add({ announce: ["quiet", "busy"], data: ["busy"] });
  await fixture.add({
    levels: [
      { marketId: "busy", side: 1, price: "9", volume: 1n },
      { marketId: "busy", side: 1, price: "10", volume: 18_446_744_073_709_551_615n },
      { marketId: "busy", side: 1, price: "1000000000000000000000000000000", volume: 2n },
      { marketId: "busy", side: 2, price: "2000000000000000000000000000000", volume: 3n },
      { marketId: "busy", side: 2, price: "9000000000000000000000000000000", volume: 4n },
    ],
    trades: ["busy"],
    data: ["also-busy"],
    announce: ["also-busy"],
  });
  live = await follow();
  twin = await follow();
  api = serve(live);
  twinApi = serve(twin);
});

afterAll(async () => {
  await live.stop();
  await twin.stop();
  await fixture.drop();
});

function ask(name: string, request: object, on: Api = api): EncodedResponse | ResponseStream {
  const method = on.find((one) => one.desc.name === name);
  if (method === undefined) throw new Error(`no method ${name}`);
  const run = method.kind === "unary" ? method.invoke : method.open;
  return run(request as never, call) as EncodedResponse | ResponseStream;
}

function json(name: string, request: object, on: Api = api): unknown {
  const response = ask(name, request, on) as EncodedResponse;
  return JSON.parse(Buffer.from(response.json()).toString());
}

function failure(name: string, request: object): unknown {
  try {
    ask(name, request);
  } catch (error) {
    if (error instanceof Failure) return { code: error.code, reason: error.reason, message: error.message };
    throw error;
  }
  return undefined;
}

const levels = {
  buy: [
    { price: "1000000000000000000000000000000", numberOfOrders: "1", volume: "2" },
    { price: "10", numberOfOrders: "1", volume: "18446744073709551615" },
    { price: "9", numberOfOrders: "1", volume: "1" },
  ],
  sell: [
    { price: "2000000000000000000000000000000", numberOfOrders: "1", volume: "3" },
    { price: "9000000000000000000000000000000", numberOfOrders: "1", volume: "4" },
  ],
};

describe("answers", () => {
  test("a market is given as the network stated it", () => {
    expect(json("GetMarket", { marketId: "busy" })).toMatchObject({ market: { id: "busy", decimalPlaces: "1" } });
  });

  test("a depth response has its levels in order, its last trade and its sequence number", () => {
    expect(json("GetLatestMarketDepth", { marketId: "busy" })).toEqual({
      marketId: "busy",
      ...levels,
      lastTrade: {
        ...{
          id: "trade-20",
          marketId: "busy",
          price: "18446744073709551617",
          size: "3",
          buyer: "alice",
          seller: "bob",
        },
        ...{ aggressor: "SIDE_SELL", buyOrder: "order-b", sellOrder: "order-s", timestamp: "3000000" },
        type: "TYPE_DEFAULT",
        buyerFee: { makerFee: "1", infrastructureFee: "2", liquidityFee: "3" },
        sellerFee: { makerFee: "0", infrastructureFee: "0", liquidityFee: "0" },
        ...{ buyerAuctionBatch: "4", sellerAuctionBatch: "18446744073709551615" },
      },
      sequenceNumber: "3000007",
    });
  });

  test.each([
    [0n, 3, 2],
    [1n, 1, 1],
    [2n, 2, 2],
    [3n, 3, 2],
    [18_446_744_073_709_551_615n, 3, 2],
  ])("maxDepth %s gives %s and %s levels", (maxDepth, buy, sell) => {
    const depth = json("GetLatestMarketDepth", { marketId: "busy", maxDepth });
    expect(depth).toMatchObject({ buy: levels.buy.slice(0, buy), sell: levels.sell.slice(0, sell) });
  });

  test("a market without orders has an empty depth, and no last trade", () => {
    const empty = { marketId: "quiet", buy: [], sell: [], sequenceNumber: "0" };
    expect(json("GetLatestMarketDepth", { marketId: "quiet" })).toEqual(empty);
  });

  test("market data is given as the network stated it", () => {
    const expected = { marketData: { market: "busy", markPrice: "1", timestamp: "2000000" } };
    expect(json("GetLatestMarketData", { marketId: "busy" })).toMatchObject(expected);
  });

  test.each([
    [[], ["also-busy", "busy"]],
    [["busy"], ["busy"]],
    [
      ["busy", "also-busy", "busy"],
      ["also-busy", "busy"],
    ],
  ])("the list of %j is of %j", (market, expected) => {
    const { marketsData } = json("ListLatestMarketData", { market }) as { marketsData: { market: string }[] };
    expect(marketsData.map((data) => data.market)).toEqual(expected);
  });

  test("the binary form says the same as the JSON", () => {
    for (const [name, request] of hot) {
      const response = ask(name, request) as EncodedResponse;
      const message = fromBinary(response.schema, response.binary());
      expect(toJson(response.schema, message, jsonWriteOptions), name).toEqual(json(name, request));
      expect(response.message()).toEqual(message);
    }
  });
});

const hot: readonly [string, object][] = [
  ["GetMarket", { marketId: "busy" }],
  ["GetLatestMarketDepth", { marketId: "busy" }],
  ["GetLatestMarketDepth", { marketId: "busy", maxDepth: 1n }],
  ["GetLatestMarketDepth", { marketId: "quiet" }],
  ["GetLatestMarketData", { marketId: "busy" }],
  ["ListLatestMarketData", { market: [] }],
  ["ListLatestMarketData", { market: ["busy"] }],
];

describe("versions", () => {
  test("are the same from every process, and different for every content", () => {
    const version = ([name, request]: readonly [string, object], on: Api) =>
      (ask(name, request, on) as EncodedResponse).version;
    const ours = hot.map((one) => version(one, api));
    expect(ours).toEqual(hot.map((one) => version(one, twinApi)));
    for (const one of ours) expect(one).toMatch(/^[A-Za-z0-9_-]+$/);
    const depths = ours.slice(1, 4);
    expect(new Set(depths).size).toBe(depths.length);
  });

  test("the same version is the same response, until something in it changes", async () => {
    for (const [name, request] of hot) expect(ask(name, request), name).toBe(ask(name, request));
    const before = hot.map(([name, request]) => ask(name, request));
    await fixture.add({ quiet: ["busy"], data: ["also-busy"] });
    await expect.poll(() => live.state().progress.streamSequence).toBe(fixture.network.progress.streamSequence);
    const changed = hot.map(
      ([name, request], i) =>
        (ask(name, request) as EncodedResponse).version !== (before[i] as EncodedResponse).version,
    );
    expect(changed).toEqual([false, true, true, false, false, true, false]);
  });
});

describe("refusals", () => {
  const long = "m".repeat(129);
  const unknown = "market nowhere is not known; TradingDataService.ListMarkets lists all";
  const noData = "market quiet has no market data yet, and a venue's market may never have any; ask for its depth";
  test.each([
    [
      "GetMarket",
      { marketId: "" },
      "invalid_argument",
      "INVALID_IDENTIFIER",
      "market_id: is empty; give an identifier",
    ],
    ["GetMarket", { marketId: "nowhere" }, "not_found", "MARKET_UNKNOWN", unknown],
    [
      ...["GetLatestMarketDepth", { marketId: long }, "invalid_argument", "INVALID_IDENTIFIER"],
      "market_id: has 129 characters; an identifier has at most 128",
    ],
    ["GetLatestMarketDepth", { marketId: "nowhere" }, "not_found", "MARKET_UNKNOWN", unknown],
    [
      ...["GetLatestMarketData", { marketId: "caf\u00e9" }, "invalid_argument", "INVALID_IDENTIFIER"],
      "market_id: has an unprintable character at position 4; an identifier is printable ASCII",
    ],
    ["GetLatestMarketData", { marketId: "nowhere" }, "not_found", "MARKET_UNKNOWN", unknown],
    ["GetLatestMarketData", { marketId: "quiet" }, "not_found", "NO_MARKET_DATA_YET", noData],
    ["ListLatestMarketData", { market: ["busy", "nowhere"] }, "not_found", "MARKET_UNKNOWN", unknown],
    ["ListLatestMarketData", { market: ["busy", "quiet"] }, "not_found", "NO_MARKET_DATA_YET", noData],
    [
      ...["ListLatestMarketData", { market: [""] }, "invalid_argument", "INVALID_IDENTIFIER"],
      "market: is empty; give an identifier",
    ],
    ["ObserveMarketsDepthUpdates", { marketIds: ["busy", "nowhere"] }, "not_found", "MARKET_UNKNOWN", unknown],
    [
      ...["ObserveMarketsDepthUpdates", { marketIds: [""] }, "invalid_argument", "INVALID_IDENTIFIER"],
      "market_ids: is empty; give an identifier",
    ],
  ] as [string, object, string, string, string][])("%s %j: %s %s", (name, request, code, reason, message) => {
    expect(failure(name, { market: [], ...request })).toEqual({ code, reason, message });
  });

  test("nothing is answered before something was read", async () => {
    const empty = await MarketFixture.create();
    const limits = { pollIntervalMs: 2 };
    const loading = await Live.start({
      database: empty.database,
      log: createLog("silent"),
      metrics: createMetrics(),
      limits,
    });
    const loadingApi = serve(loading);
    for (const [name, request] of [...hot, ["ObserveMarketsDepthUpdates", { marketIds: [] }] as const]) {
      expect(() => ask(name, request, loadingApi), name).toThrow(
        "the service has nothing to answer from yet; try again",
      );
    }
    await loading.stop();
    await empty.drop();
  });
});
