import { setTimeout as sleep } from "node:timers/promises";
import type { JsonObject } from "@bufbuild/protobuf";
import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { createMarketdClient, type MarketdClient } from "../../clients/typescript/src/client.js";
import { trades as readTrades } from "../../clients/typescript/src/trade-reader.js";
import { openMarketd } from "../../src/connect/open-marketd.js";
import { firstIdOfBlock } from "../../src/domain/block-position.js";
import { type LoadOptions, load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { droppedTradesMax } from "../../src/loader/trade-fold.js";
import { Network } from "../../src/simulator/network.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { readBookHistories, readPastFigures } from "../../src/store/history-table.js";
import { dropDatabase, migrate } from "../../src/store/migrate.js";
import { readProgress } from "../../src/store/progress-table.js";
import { readTradeProgress } from "../../src/store/trade-table.js";
import { createLog } from "../../src/telemetry/log.js";
import { TradeFeed, TradeFollower } from "../../src/trades/trade-feed.js";
import { checkTradesNow } from "../../src/verify/candle-check.js";
import { Findings, renderFinding } from "../../src/verify/findings.js";
import { checkPast, checkPastNow, checkTrades } from "../../src/verify/history-check.js";
import { verify } from "../../src/verify/verify.js";
import { ApiCaller } from "../support/api-caller.js";
import { newDatabaseUrl } from "../support/database.js";
import { dump, emptyStore } from "../support/dump.js";
import { inChunks, RecordingBuilder } from "../support/recording.js";
import { level } from "../support/venue-recording.js";
import { tradeJson, tradesOf, wholeBlocks } from "./trade-model.js";

/* `load --keep-trades`: what is dropped, what is refused then, and what stays as it was. */

const second = 1_000_000_000n;
const { url } = newDatabaseUrl();
const log = createLog("silent");
const options = { seed: 77, markets: 6, parties: 10, ordersPerBlock: 12, entriesPerBlock: 0 };
const network = new Network({ ...options, blockIntervalNs: 20n * second });
const blocks = Array.from({ length: 200 }, () => Buffer.from(network.nextBlock()));
const trades = tradesOf(Buffer.concat(blocks));
const heads = [...wholeBlocks(Buffer.concat(blocks))];
const keepNs = 1_000n * second;
/** They are dropped in steps of a sixtieth of that, rounded up. */
const stepNs = (keepNs + 59n) / 60n;
const sinceNs = (((heads.at(-1)?.timeNs ?? 0n) - keepNs) / stepNs) * stepNs;
/** The first block whose trades are kept of all blocks. */
const oldest = heads.find(({ timeNs }) => timeNs >= sinceNs) ?? heads[0];
let store: Database;

beforeAll(async () => {
  await migrate(url, log);
  store = openDatabase(url, { connectionsMax: 4 });
});
beforeEach(() => emptyStore(store));
afterAll(async () => {
  await store.close();
  await dropDatabase(url);
});

function loadBytes(bytes: Uint8Array, more: Partial<LoadOptions> = {}): Promise<unknown> {
  return load({ database: url, sources: [streamSource(inChunks(bytes), "blocks")], log, ...more });
}

function loadBlocks(upTo: number, more: Partial<LoadOptions> = {}): Promise<unknown> {
  return loadBytes(Buffer.concat(blocks.slice(0, upTo)), more);
}

async function findings(): Promise<string[]> {
  return (await verify(store)).findings.listed.map(renderFinding);
}

async function count(sql: string): Promise<number> {
  const [row] = await store.query<{ n: bigint }>(`SELECT COUNT(*) AS n FROM ${sql}`);
  return Number(row?.n);
}

test("older trades and candles of their blocks go, but for each market's newest, and the rest proves right", async () => {
  await loadBlocks(199);
  const candles = await count("candle WHERE period_seconds > 0");
  await loadBlocks(200, { keepTrades: keepNs });
  expect(await findings()).toEqual([]);
  const bound = firstIdOfBlock(oldest?.height ?? 0n);
  const before = await store.query<{ marketId: string }>(
    `SELECT market_id AS marketId FROM trade WHERE id < ${bound} ORDER BY id`,
  );
  expect(new Set(before.map(({ marketId }) => marketId)).size).toBe(before.length);
  expect(before.length).toBeGreaterThan(2);
  expect(await count(`trade WHERE id >= ${bound}`)).toBe(
    trades.filter(({ height }) => height >= (oldest?.height ?? 0n)).length,
  );
  expect(await count("candle WHERE period_seconds > 0")).toBeGreaterThanOrEqual(candles);
  expect(await count(`candle WHERE period_seconds = 0 AND first_trade < ${bound}`)).toBeLessThanOrEqual(before.length);
  expect(await store.withConnection(readPastFigures)).toMatchObject({ oldestTradeNs: oldest?.timeNs });
  // What is dropped once does not come back.
  await loadBlocks(200);
  expect(await store.withConnection(readPastFigures)).toMatchObject({ oldestTradeNs: oldest?.timeNs });
  await store.withConnection((connection) => {
    return connection.run(`UPDATE trade SET size = size + 1 WHERE id >= ${bound} ORDER BY id DESC LIMIT 1`);
  });
  const found = await findings();
  expect(found[0]).toMatch(/^last_trade: market .*: it is not the newest of the market's trades$/);
  // Of a longer period, some trades may be gone.
  for (const [index, seconds] of [0, 60, 300].entries()) {
    expect(found[index + 1]).toMatch(new RegExp(`^candle: market .*, ${seconds} s: they are not what the trades add`));
  }
  expect(found.at(-1)).toBe("trade: it is not what was written");
});

test("trades that are dropped for the first time during a verification are no damage, and hide none", async () => {
  await loadBlocks(199);
  const verifyWhile = async (change: () => Promise<unknown>): Promise<string[]> => {
    const found = new Findings();
    const progress = await store.withConnection(readProgress);
    const snapshot = await store.withSnapshot((connection) => checkTradesNow(connection, found));
    await change();
    if (progress !== undefined) await checkTrades(store, snapshot, progress, found);
    return found.listed.map(renderFinding);
  };
  expect(await verifyWhile(() => loadBlocks(200, { keepTrades: keepNs }))).toEqual([]);
  await emptyStore(store);
  await loadBlocks(199);
  const found = await verifyWhile(async () => {
    await loadBlocks(200, { keepTrades: keepNs });
    await store.withConnection((connection) =>
      connection.run("UPDATE trade SET size = size + 1 ORDER BY id DESC LIMIT 1"),
    );
  });
  expect(found.at(-1)).toBe("trade: it is not what was written");
});

test("books that are dropped during a verification, their newest segment of its start too, are no damage", async () => {
  const busy = new Network({ ...options, markets: 1, ordersPerBlock: 400, blockIntervalNs: 20n * second });
  const all = Array.from({ length: 40 }, () => Buffer.from(busy.nextBlock()));
  const keep = { keepBooks: 100n * second, blockByBlock: true };
  await loadBytes(Buffer.concat(all.slice(0, 20)), keep);
  const found = new Findings();
  const progress = await store.withConnection(readProgress);
  if (progress === undefined) throw new Error("there are blocks");
  const snapshot = await store.withSnapshot((connection) => checkPastNow(connection, progress, found));
  await loadBytes(Buffer.concat(all), keep);
  const newest = await store.withConnection((connection) => readBookHistories(connection));
  expect(newest.some(({ oldestSequence }, i) => oldestSequence > (snapshot.histories[i]?.newestSequence ?? 0n))).toBe(
    true,
  );
  await store.withConnection((connection) =>
    checkPast(connection, { ...snapshot, isCurrent: false }, new Map(), found),
  );
  expect(found.listed.map(renderFinding)).toEqual([]);
});

test("a transaction drops a bounded number of trades, whatever is due", async () => {
  const most = droppedTradesMax;
  const recording = new RecordingBuilder();
  const trade = (id: string) => ({ id, marketId: "m", price: "10", size: 1n });
  recording.block(1, second, (r) => r.market("m"));
  recording.block(2, 2n * second, (r) => {
    for (let n = 0; n < 2 * most + 10; n++) r.trade(trade(`${n}`));
  });
  for (let height = 3; height < 10; height++) recording.block(height, BigInt(height) * 100n * second);
  await loadBytes(recording.bytes());
  const left = [];
  for (let height = 10; height < 13; height++) {
    recording.block(height, BigInt(height) * 100n * second, (r) => r.trade(trade(`later ${height}`)));
    await loadBytes(recording.bytes(), { keepTrades: 350n * second });
    left.push(await count("trade WHERE market_id = 'm'"));
    expect(await findings()).toEqual([]);
  }
  // The examined trades of each load, of which the newest stays; a load begins with that.
  expect(left).toEqual([2 * most + 11 - most, 12, 4]);
});

test("the oldest block that is kept moves in steps, so that most blocks need no look for old trades", async () => {
  const recording = new RecordingBuilder();
  const tenth = second / 10n;
  const add = (height: number, tenths: number) =>
    recording.block(height, second + BigInt(tenths) * tenth, (r) => {
      r.trade({ id: `${height}`, marketId: "m", price: "10", size: 1n });
    });
  recording.block(1, second, (r) => r.market("m"));
  for (let height = 2; height < 140; height++) add(height, height);
  const kept: (bigint | undefined)[] = [];
  for (let height = 140; height < 170; height++) {
    add(height, height + 560);
    await loadBytes(recording.bytes(), { keepTrades: 60n * second });
    kept.push((await store.withConnection(readTradeProgress))?.oldest.timeNs);
  }
  expect(kept).toEqual(kept.map((_, n) => (11n + BigInt(Math.floor(n / 10))) * second));
});

test("rows are the same for random batches and restarts", async () => {
  const dumps = [];
  for (const rows of [5, 300, 100_000]) {
    await emptyStore(store);
    for (const upTo of [70, 140, 200]) {
      await loadBlocks(upTo, { keepTrades: keepNs, transactionRowsMax: rows });
    }
    dumps.push(await dump(url));
  }
  expect(await findings()).toEqual([]);
  expect(dumps[1]).toEqual(dumps[0]);
  expect(dumps[2]).toEqual(dumps[0]);
});

test("what reaches before the oldest trade is refused; candles of longer periods stay", async () => {
  await loadBlocks(200);
  let api = await ApiCaller.open(url);
  const { edges } = await api.page("ListTrades", { pagination: { last: 5 } });
  const minutes = new Map<string, JsonObject[]>();
  const marketIds = (await api.page("ListMarkets")).edges.map(({ node }) => String(node["id"]));
  const minutesOf = (marketId: string) =>
    api.pageThrough("ListCandleData", { candleId: `trades_candle_1_minute_${marketId}` }, 1_000, {});
  for (const marketId of marketIds) minutes.set(marketId, await minutesOf(marketId));
  await api.opened.close();
  await emptyStore(store);
  await loadBlocks(200, { keepTrades: keepNs });
  api = await ApiCaller.open(url);
  const kept = trades.filter(({ height }) => height >= (oldest?.height ?? 0n)).map(tradeJson);
  expect(await api.pageThrough("ListTrades", {}, 100, { newestFirst: false })).toEqual(kept);
  const notKept = { code: "failed_precondition", reason: "TRADES_NOT_RETAINED" };
  const early = `${heads.findLast(({ height }) => height < (oldest?.height ?? 0n))?.timeNs}`;
  for (const request of [
    { dateRange: { startTimestamp: early } },
    { dateRange: { endTimestamp: `${oldest?.timeNs}` } },
    { pagination: { first: 3, after: edges[0]?.cursor ?? "" } },
  ]) {
    expect(await api.failure("ListTrades", request)).toEqual(notKept);
  }
  for (const marketId of marketIds) {
    expect(await minutesOf(marketId)).toEqual(minutes.get(marketId));
    const [candleId, fromTimestamp] = [`trades_candle_block_${marketId}`, early];
    const listed = await api.pageThrough("ListCandleData", { candleId }, 1_000, { newestFirst: false });
    expect(listed.every(({ start }) => BigInt(String(start)) >= (oldest?.timeNs ?? 0n))).toBe(true);
    expect(await api.failure("ListCandleData", { candleId, fromTimestamp })).toEqual(notKept);
    const minute = { candleId: `trades_candle_1_minute_${marketId}`, fromTimestamp };
    const { edges } = await api.page("ListCandleData", minute);
    const expected = minutes.get(marketId)?.filter(({ start }) => BigInt(String(start)) >= BigInt(early));
    expect(edges.map(({ node }) => node)).toEqual(expected);
  }
  await api.opened.close();
});

test("a stream that is behind what is kept ends with that; one that is not goes on", async () => {
  await loadBlocks(100);
  const api = await ApiCaller.open(url, { pollIntervalMs: 1 });
  const { live } = api.opened;
  // A follower that keeps little in memory.
  const follower = new TradeFollower(store, live.state(), 5);
  const open = (name: string) =>
    live.openFeed(name, follower.newest, (owner) => {
      return new TradeFeed(follower, { marketIds: [], partyIds: [] }, owner);
    });
  const quick = open("quick");
  const slow = [open("slow"), open("slow"), open("slow")];
  for (const stream of [quick, ...slow]) stream.take();
  const loaded = loadBlocks(200, { keepTrades: 100n * second, blockByBlock: true });
  const seen: JsonObject[] = [];
  const expected = trades.filter(({ height }) => height > 100n).map(tradeJson);
  await vi.waitFor(
    () => {
      for (const response of quick.take()) seen.push(...(JSON.parse(response.jsonText()) as { trades: [] }).trades);
      expect(seen.length).toBe(expected.length);
    },
    { timeout: 60_000, interval: 1 },
  );
  await loaded;
  expect(seen).toEqual(expected);
  for (const stream of slow) stream.take();
  await vi.waitFor(() => {
    for (const { failure } of slow) {
      expect(failure).toMatchObject({ code: "failed_precondition", reason: "TRADES_NOT_RETAINED" });
    }
  });
  quick.close();
  await api.opened.close();
});

test("a network that halts for longer than trades are kept ends no stream that has all of them", async () => {
  const recording = new RecordingBuilder();
  const loadBlock = (height: number, seconds: bigint) => {
    const trade = { id: `${height}`, marketId: "m", price: "5", size: 1n };
    recording.block(height, seconds * second, (r) => (height === 1 ? r.market("m") : r).trade(trade));
    return loadBytes(recording.bytes(), { keepTrades: 60n * second });
  };
  await loadBlock(1, 1n);
  const api = await ApiCaller.open(url, { pollIntervalMs: 1 });
  const stream = await api.stream("ObserveTrades", {});
  const seen: string[] = [];
  const sees = (...expected: string[]) =>
    vi.waitFor(
      () => {
        for (const response of stream.take()) {
          const { trades } = JSON.parse(response.jsonText()) as { trades: { id: string }[] };
          seen.push(...trades.map(({ id }) => id));
        }
        expect([seen, stream.failure]).toEqual([expected, undefined]);
      },
      { timeout: 20_000 },
    );
  await loadBlock(2, 2n);
  await sees("2");
  await loadBlock(3, 3_600n);
  await sees("2", "3");
  // What the stream is at was dropped.
  const { oldest } = (await store.withConnection(readTradeProgress)) ?? {};
  expect(oldest?.height).toBe(3n);
  await loadBlock(4, 3_601n);
  await sees("2", "3", "4");
  stream.close();
  await api.opened.close();
});

test("a follower that comes too late for what is kept goes on with the newest block", async () => {
  await loadBlocks(100);
  const api = await ApiCaller.open(url, { pollIntervalMs: 1 });
  const { live } = api.opened;
  const slow = openDatabase(url);
  const follower = new TradeFollower(slow, live.state());
  const open = () => {
    return live.openFeed("one", follower.newest, (owner) => {
      return new TradeFeed(follower, { marketIds: [], partyIds: [] }, owner);
    });
  };
  // Its connection takes nothing: it keeps the feed open.
  const stuck = open();
  stuck.take();
  let release = (): void => {};
  const loaded = new Promise<void>((resolve) => {
    release = resolve;
  });
  const lease = slow.lease.bind(slow);
  const leases = vi.spyOn(slow, "lease").mockImplementation(async (of, use) => {
    await loaded;
    return lease(of, use);
  });
  await loadBlocks(190, { keepTrades: keepNs });
  await vi.waitFor(() => expect(leases).toHaveBeenCalled());
  release();
  await vi.waitFor(() => expect(follower.reached).toBe(follower.newest));
  const late = open();
  late.take();
  const seen: JsonObject[] = [];
  await loadBlocks(200, { keepTrades: keepNs });
  const expected = trades.filter(({ height }) => height > 190n).map(tradeJson);
  await vi.waitFor(() => {
    for (const response of late.take()) seen.push(...(JSON.parse(response.jsonText()) as { trades: [] }).trades);
    expect(seen).toEqual(expected);
  });
  expect(late.failure).toBeUndefined();
  stuck.take();
  await vi.waitFor(() => expect(stuck.failure).toMatchObject({ reason: "TRADES_NOT_RETAINED" }));
  late.close();
  await api.opened.close();
  await slow.close();
});

test("a client's reader goes on where the network stood still, or its market, for longer than trades are kept", async () => {
  const keep = { keepTrades: 10n * second };
  const trade = (marketId: string, id: string) => ({ id, marketId, price: "10", size: 1n });
  const recording = new RecordingBuilder().block(1, second, (r) => {
    r.market("m").market("busy").trade(trade("m", "a"));
  });
  await loadBytes(recording.bytes());
  const marketd = await openMarketd({ database: url, logLevel: "silent" });
  const client = createMarketdClient(createRouterTransport(marketd.routes));
  let streams = 0;
  let cut = new AbortController();
  const cuttable: MarketdClient = {
    ...client,
    async *observeTrades(request, options) {
      streams++;
      cut = new AbortController();
      const signal = AbortSignal.any([cut.signal, ...(options?.signal === undefined ? [] : [options.signal])]);
      yield* client.observeTrades(request, { ...options, signal });
    },
  };
  const stop = new AbortController();
  const seen: string[] = [];
  const reading = (async () => {
    for await (const { id } of readTrades(cuttable, "m", undefined, { signal: stop.signal })) seen.push(id);
  })();
  await vi.waitFor(() => expect([streams, seen]).toEqual([1, ["a"]]), { timeout: 20_000 });
  recording.block(2, 101n * second, (r) => r.trade(trade("m", "b")));
  await loadBytes(recording.bytes(), keep);
  await vi.waitFor(() => expect([streams, seen]).toEqual([1, ["a", "b"]]), { timeout: 20_000 });
  for (let height = 3; height < 20; height++) {
    recording.block(height, BigInt(100 + 10 * height) * second, (r) => r.trade(trade("busy", `${height}`)));
  }
  await loadBytes(recording.bytes(), keep);
  await vi.waitFor(async () => {
    const dateRange = { startTimestamp: 101n * second };
    await expect(client.listTrades({ marketIds: ["m"], dateRange })).rejects.toThrow(
      /the oldest whose trades are kept/,
    );
  });
  cut.abort(new ConnectError("cut", Code.Unavailable));
  await vi.waitFor(() => expect(streams).toBe(2), { timeout: 20_000 });
  recording.block(20, 301n * second, (r) => r.trade(trade("m", "c")));
  await loadBytes(recording.bytes(), keep);
  await vi.waitFor(() => expect(seen).toEqual(["a", "b", "c"]), { timeout: 20_000 });
  stop.abort();
  await reading;
  await marketd.close();
});

test("a past book has its last trade, however old; one from before what is kept is refused", async () => {
  const recording = new RecordingBuilder();
  const trade = (marketId: string, id: string) => ({ id, marketId, price: "10", size: 1n });
  recording.block(1, second, (r) => {
    r.market("quiet")
      .market("busy")
      .venue({ case: "marketDefinition", value: { marketId: "v" } });
    r.venue({ case: "bookSnapshot", value: { marketId: "v", bids: [level("1", "1")] } });
    r.trade(trade("quiet", "long ago"));
  });
  for (let height = 2; height < 40; height++) {
    recording.block(height, BigInt(height) * second, (r) => {
      r.trade(trade("busy", `${height}`));
      r.venue({ case: "trade", value: { ...trade("v", `v${height}`), size: "1" } });
    });
  }
  await loadBytes(recording.bytes(), { keepTrades: 10n * second });
  expect(await findings()).toEqual([]);
  const api = await ApiCaller.open(url);
  const lastOf = async (marketId: string, blockHeight: string) => {
    const { lastTrade } = await api.json<{ lastTrade?: JsonObject }>("GetMarketDepthAt", { marketId, blockHeight });
    return lastTrade?.["id"];
  };
  expect([await lastOf("quiet", "30"), await lastOf("quiet", "5")]).toEqual(["long ago", "long ago"]);
  expect([await lastOf("busy", "29"), await lastOf("busy", "28")]).toEqual(["29", "28"]);
  expect([await lastOf("v", "29"), await lastOf("v", "28")]).toEqual(["v29", "v28"]);
  for (const marketId of ["busy", "v"]) {
    const failure = await api.failure("GetMarketDepthAt", { marketId, blockHeight: "27" });
    expect(failure).toEqual({ code: "failed_precondition", reason: "HISTORY_NOT_KEPT" });
  }
  const listed = await api.pageThrough("ListTrades", { marketIds: ["v"] }, 100, { newestFirst: false });
  expect(listed.map(({ id }) => id)).toEqual(Array.from({ length: 11 }, (_, n) => `v${n + 29}`));
  await api.opened.close();
});

test("the nearest place of a past book's error is at or after the market's oldest kept trade, and has a book", async () => {
  const recording = new RecordingBuilder();
  const add = (height: number, fill: (recording: RecordingBuilder) => unknown) =>
    recording.block(height, BigInt(height) * second, fill);
  const ids = ["whole", "healed", "lost", "late", "silent", "new"];
  const book = (marketId: string, sequenceNumber: number) => {
    return { marketId, sequenceNumber: BigInt(sequenceNumber), bids: [level("1", "1")] };
  };
  const snapshot = (id: string, n: number) => ({ case: "bookSnapshot" as const, value: book(id, n) });
  const delta = (id: string, n: number) => ({ case: "bookDelta" as const, value: book(id, n) });
  const trade = (marketId: string, height: number) => {
    return { case: "trade" as const, value: { marketId, id: `${marketId} ${height}`, price: "1", size: "1" } };
  };
  add(1, (r) => {
    for (const id of ids) r.venue({ case: "marketDefinition", value: { marketId: id } });
    for (const id of ids) if (id !== "late") r.venue(snapshot(id, 1));
  });
  for (let height = 2; height < 40; height++) {
    add(height, (r) => {
      for (const id of ids.slice(0, 4)) r.venue(trade(id, height));
      if (height === 33) r.venue(trade("new", height));
      if (height === 3) r.venue(snapshot("late", 1));
      if (height === 20) r.venue(delta("healed", 9)).venue(delta("lost", 9));
      if (height === 35) r.venue(snapshot("healed", 20));
    });
  }
  await loadBytes(recording.bytes(), { keepTrades: 10n * second });
  const api = await ApiCaller.open(url);
  const nearest = async (marketId: string, blockHeight: string, place: JsonObject = { blockHeight }) => {
    const thrown = await api.response("GetMarketDepthAt", { marketId, ...place }).catch((error) => error);
    expect(thrown).toMatchObject({ code: "failed_precondition" });
    const { nearest_height: height, nearest_stream_sequence: streamSequence } = thrown.reasonMetadata;
    if (height === undefined) return undefined;
    for (const place of [{ blockHeight: height }, { streamSequence }]) {
      const { block } = await api.json<{ block: JsonObject }>("GetMarketDepthAt", { marketId, ...place });
      expect(block).toMatchObject({ height, streamSequence });
    }
    return height;
  };
  // A book of before is whole up to now, with the newest trade of before, comes whole later, or never.
  expect(await nearest("whole", "5")).toBe("28");
  expect(await nearest("healed", "5")).toBe("35");
  expect(await nearest("lost", "5")).toBeUndefined();
  // The trades are kept, and the books that have none are not.
  expect(await nearest("lost", "30")).toBeUndefined();
  expect(await nearest("late", "1")).toBe("28");
  expect(await nearest("whole", "", { timestamp: "0" })).toBe("28");
  // Where there is no book either, that is said: its changes cannot be listed.
  const failure = await api.failure("GetMarketDepthAt", { marketId: "healed", blockHeight: "25" });
  expect(failure).toEqual({ code: "failed_precondition", reason: "MARKET_WAS_STALE" });
  // No trade of these was dropped.
  for (const [marketId, blockHeight] of [
    ["silent", "5"],
    ["new", "5"],
    ["new", "32"],
  ] as const) {
    const { block, lastTrade } = await api.json<JsonObject>("GetMarketDepthAt", { marketId, blockHeight });
    expect([block, lastTrade]).toEqual([expect.objectContaining({ height: blockHeight }), undefined]);
  }
  await api.opened.close();
});

test("pages and verifications miss nothing while trades are dropped", async () => {
  await loadBlocks(80, { keepTrades: keepNs });
  const api = await ApiCaller.open(url, { pollIntervalMs: 1 });
  let isLoading = true;
  const loaded = loadBlocks(200, { keepTrades: keepNs, pace: 40 }).finally(() => {
    isLoading = false;
  });
  const all = trades.map(tradeJson);
  let pages = 0;
  do {
    const { edges } = await api.page("ListTrades", { pagination: { first: 5_000 } });
    const [newest, last] = [edges[0]?.node["id"], edges.at(-1)?.node["id"]];
    const [high, low] = [newest, last].map((id) => all.findIndex((trade) => trade["id"] === id));
    expect(edges.map(({ node }) => node).reverse()).toEqual(all.slice(low, (high ?? 0) + 1));
    // The oldest is the first one of a block that was the oldest meanwhile.
    expect(trades[(low ?? 0) - 1]?.height).not.toBe(trades[low ?? 0]?.height);
    if (pages++ % 10 === 0) expect(await findings()).toEqual([]);
    await sleep(10);
  } while (isLoading);
  await loaded;
  expect(pages).toBeGreaterThan(10);
  await api.opened.close();
});
