import { createHash } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { entryId } from "../../src/domain/block-position.js";
import { simulate } from "../../src/simulator/network.js";
import { Random } from "../../src/simulator/random.js";
import { openDatabase } from "../../src/store/database.js";
import { type PastTradeRow, pastTradeRows } from "../../src/store/history-table.js";
import { insertRows } from "../../src/store/table-rows.js";
import { tradeKeysMax } from "../../src/trades/trade-reader.js";
import { ApiCaller } from "../support/api-caller.js";
import { newDatabaseUrl } from "../support/database.js";
import { loadRecording } from "../support/load-recording.js";
import { tries } from "../support/tries.js";
import { type ModelTrade, randomQuery, realRecording, selects, tradeJson, tradesOf } from "./trade-model.js";

/* ListTrades and GetLastTrade against the trades of a recording, in its order. */

const blocks = [
  ...simulate({ seed: 11, blocks: 250, markets: 9, parties: 12, ordersPerBlock: 30, entriesPerBlock: 0 }),
];
const simulated = Buffer.concat(blocks);

const networks: [string, Uint8Array | undefined][] = [
  ["a simulated network", simulated],
  ["the recording of a real network", realRecording()],
];

describe.each(networks.filter(([, recording]) => recording !== undefined))("%s", (_, recording = new Uint8Array()) => {
  const { url } = newDatabaseUrl();
  const trades = tradesOf(recording);
  let api: ApiCaller;

  beforeAll(async () => {
    await loadRecording(url, recording);
    api = await ApiCaller.open(url);
  });

  afterAll(() => api.opened.close());

  test("lists every trade once, in both orders and directions, with any page size", async () => {
    const all = trades.map(tradeJson);
    expect(all.length).toBeGreaterThan(10);
    for (const size of [1, 7, 100, 5_000].filter((size) => size > 1 || all.length < 100)) {
      for (const backwards of [false, true]) {
        expect(await api.pageThrough("ListTrades", {}, size, { backwards, newestFirst: false })).toEqual(all);
        expect(await api.pageThrough("ListTrades", {}, size, { backwards })).toEqual(all.toReversed());
      }
    }
  });

  test("selects by markets, parties, orders and times", async () => {
    const random = new Random(7, "queries");
    for (let i = 0; i < tries(60); i++) {
      const query = randomQuery(random, trades);
      const expected = trades.filter((trade) => selects(query, trade)).map(tradeJson);
      const size = 1 + random.below(expected.length + 3);
      const [backwards, newestFirst] = [random.chance(0.5), random.chance(0.5)];
      const found = await api.pageThrough(
        "ListTrades",
        query as JsonObject,
        Math.max(size, Math.ceil(expected.length / 20)),
        {
          backwards,
          newestFirst,
        },
      );
      expect(found, JSON.stringify(query)).toEqual(newestFirst ? expected.toReversed() : expected);
    }
  });

  test("selects by lists as long as they may be, together", async () => {
    const longest = (kind: string, real: readonly string[]) => {
      const made = Array.from({ length: 1_000 }, (_, n) => createHash("sha256").update(`${kind} ${n}`).digest("hex"));
      return [...real.slice(0, 20), ...made].slice(0, 1_000);
    };
    const query = {
      marketIds: longest("market", [...new Set(trades.map(({ trade }) => trade.marketId))]),
      partyIds: longest("party", [...new Set(trades.map(({ trade }) => trade.buyer))]),
      orderIds: longest("order", [...new Set(trades.map(({ trade }) => trade.sellOrder))]),
    };
    const expected = trades.filter((trade) => selects(query, trade)).map(tradeJson);
    expect(expected.length).toBeGreaterThan(0);
    const startedMs = performance.now();
    expect(await api.pageThrough("ListTrades", query, 1_000, { newestFirst: false })).toEqual(expected);
    // 20 s at a statement's limit where each list stands in each part of it.
    expect(performance.now() - startedMs).toBeLessThan(10_000);
  });

  test("gives the last trade of each market, with a version", async () => {
    const last = new Map<string, ModelTrade>();
    for (const trade of trades) last.set(trade.trade.marketId, trade);
    for (const { node } of (await api.page("ListMarkets")).edges) {
      const marketId = String(node["id"]);
      const trade = last.get(marketId);
      if (trade === undefined) {
        const failure = await api.failure("GetLastTrade", { marketId });
        expect(failure).toEqual({ code: "not_found", reason: "NO_TRADE_YET" });
        continue;
      }
      expect(await api.json("GetLastTrade", { marketId })).toEqual({ trade: tradeJson(trade) });
      expect((await api.response("GetLastTrade", { marketId })).version).toBeDefined();
    }
  });
});

test("a market that is not known has no last trade, and no trades in a list", async () => {
  const { url } = newDatabaseUrl();
  await loadRecording(url, simulated);
  const api = await ApiCaller.open(url);
  expect((await api.failure("GetLastTrade", { marketId: "nowhere" })).reason).toBe("MARKET_UNKNOWN");
  const { edges, pageInfo } = await api.page("ListTrades", { marketIds: ["nowhere"] });
  expect([edges.length, pageInfo.hasNextPage]).toEqual([0, false]);
  await api.opened.close();
});

describe("trades that are not kept", () => {
  const { url } = newDatabaseUrl();
  const trades = tradesOf(simulated);
  const lost = 120;
  let api: ApiCaller;

  beforeAll(async () => {
    await loadRecording(url, Buffer.concat(blocks.slice(0, lost)));
    const database = openDatabase(url);
    // As a release before this one leaves it.
    await database.withConnection(async (connection) => {
      for (const table of ["trade", "trade_progress"]) await connection.run(`DELETE FROM ${table}`);
      await connection.run("DELETE FROM history_digest WHERE table_name IN ('trade', 'trade_progress')");
    });
    await database.close();
    api = await ApiCaller.open(url);
  });

  afterAll(() => api.opened.close());

  test("are no empty list", async () => {
    const failure = await api.failure("ListTrades", {});
    expect(failure).toEqual({ code: "failed_precondition", reason: "TRADES_NOT_RETAINED" });
  });

  test("end a list once newer ones are, and fail what reaches before them", async () => {
    await loadRecording(url, simulated);
    const kept = trades.filter(({ height }) => height > BigInt(lost));
    const listed = await api.pageThrough("ListTrades", {}, 50, { newestFirst: false });
    expect(listed).toEqual(kept.map(tradeJson));
    const [first] = kept;
    const dateRange = { startTimestamp: `${first?.timeNs}` };
    const ranged = await api.pageThrough("ListTrades", { dateRange }, 50, { newestFirst: false });
    expect(ranged).toEqual(kept.map(tradeJson));
    for (const range of [{ endTimestamp: `${first?.timeNs}` }, { startTimestamp: "0" }]) {
      const failure = await api.failure("ListTrades", { dateRange: range });
      expect(failure.reason).toBe("TRADES_NOT_RETAINED");
    }
  });
});

test("a page whose matches are rare ends at the bound on work, and its cursor leads to them", async () => {
  const { url } = newDatabaseUrl();
  await loadRecording(url, simulated);
  const database = openDatabase(url);
  const [, trade] = await database.query<PastTradeRow>(pastTradeRows.select);
  if (trade === undefined) throw new Error("there is no trade");
  const rows = Array.from({ length: tradeKeysMax + 2_000 }, (_, n) => {
    const isRare = n === 10;
    return { ...trade, id: entryId(200n, 10_000 + n), buyer: "busy", marketId: isRare ? "rare" : "often" };
  });
  await database.withTransaction((connection) => insertRows(connection, pastTradeRows, rows));
  const api = await ApiCaller.open(url);
  const request = { partyIds: ["busy"], marketIds: ["rare"] };
  const { edges, pageInfo } = await api.page("ListTrades", { ...request, pagination: { first: 5 } });
  expect([edges.length, pageInfo.hasNextPage]).toEqual([0, true]);
  for (const backwards of [false, true]) {
    const found = await api.pageThrough("ListTrades", request, 5, { backwards });
    expect(found.map(({ marketId }) => marketId)).toEqual(["rare"]);
  }
  await api.opened.close();
  await database.close();
});
