import { setTimeout as sleep } from "node:timers/promises";
import type { JsonObject } from "@bufbuild/protobuf";
import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { createMarketdClient, type MarketdClient } from "../../clients/typescript/src/client.js";
import { trades as readTrades } from "../../clients/typescript/src/trade-reader.js";
import { openMarketd } from "../../src/connect/open-marketd.js";
import { unavailable } from "../../src/domain/failure.js";
import type { ResponseStream } from "../../src/domain/service.js";
import type { FeedOwner } from "../../src/live/feed.js";
import { load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { simulate } from "../../src/simulator/network.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { TradeFeed, TradeFollower } from "../../src/trades/trade-feed.js";
import { ApiCaller } from "../support/api-caller.js";
import { newDatabaseUrl } from "../support/database.js";
import { inChunks, RecordingBuilder } from "../support/recording.js";
import { selects, type TradeQuery, tradeJson, tradesOf } from "./trade-model.js";

/* ObserveTrades against the trades of a simulated network, while it is loaded block by block. */

const { url } = newDatabaseUrl();
const log = createLog("silent");
const blocks = [...simulate({ seed: 31, blocks: 160, markets: 5, parties: 9, ordersPerBlock: 30, entriesPerBlock: 0 })];
const trades = tradesOf(Buffer.concat(blocks));
const start = 60;
let api: ApiCaller;
let database: Database;

function loadBlocks(upTo: number): Promise<unknown> {
  const source = streamSource(inChunks(Buffer.concat(blocks.slice(0, upTo))), "some blocks");
  return load({ database: url, sources: [source], blockByBlock: true, log });
}

function tradesBetween(after: number, upTo: number, query: TradeQuery = {}): JsonObject[] {
  const between = trades.filter(({ height }) => height > BigInt(after) && height <= BigInt(upTo));
  return between.filter((trade) => selects(query, trade)).map(tradeJson);
}

/** What a stream has sent. */
class Reader {
  readonly trades: JsonObject[] = [];
  messages = 0;

  constructor(readonly stream: ResponseStream) {}

  take(): number {
    const responses = this.stream.take();
    for (const response of responses) {
      this.messages++;
      this.trades.push(...(JSON.parse(response.jsonText()) as { trades: JsonObject[] }).trades);
    }
    return responses.length;
  }

  async follow(expected: readonly JsonObject[]): Promise<void> {
    await vi.waitFor(
      () => {
        while (this.take() > 0);
        expect(this.trades.length).toBe(expected.length);
      },
      { timeout: 60_000, interval: 2 },
    );
    expect(this.trades).toEqual(expected);
  }
}

beforeAll(async () => {
  await migrate(url, log);
  await loadBlocks(start);
  api = await ApiCaller.open(url, { pollIntervalMs: 1 });
  database = openDatabase(url);
});

afterAll(async () => {
  await api.opened.close();
  await database.close();
});

test("each trade is sent once, in order, to quick readers and to slow ones, from memory and from the table", async () => {
  const { trade } = trades.findLast(({ height }) => height > 100n) ?? {};
  const query = { marketIds: [trade?.marketId ?? ""], partyIds: [trade?.buyer ?? "", trade?.seller ?? ""] };
  const open = async (request: object) => new Reader(await api.stream("ObserveTrades", request as JsonObject));
  const [quick, slow, some] = [await open({}), await open({}), await open(query)];
  const state = api.opened.live.state();
  // A follower that keeps little in memory.
  const follower = new TradeFollower(database, state, 20);
  const openFar = () =>
    new Reader(
      api.opened.live.openFeed("far", follower.newest, (owner) => {
        return new TradeFeed(follower, { marketIds: [], partyIds: [] }, owner);
      }),
    );
  const far = [openFar(), openFar(), openFar()];
  const all = [quick, slow, some, ...far];
  for (const reader of all) expect([reader.take(), reader.trades.length]).toEqual([1, 0]);
  const expected = tradesBetween(start, 160);
  expect(expected.length).toBeGreaterThan(100);
  const loaded = loadBlocks(160);
  await quick.follow(expected);
  await loaded;
  await slow.follow(expected);
  await vi.waitFor(() => expect(follower.reached).toBe(follower.newest));
  const lease = vi.spyOn(database, "lease");
  await Promise.all(far.map((reader) => reader.follow(expected)));
  // All of them are at the same place, and one read gives them all that there is.
  expect(lease).toHaveBeenCalledTimes(1);
  lease.mockRestore();
  await some.follow(tradesBetween(start, 160, query));
  expect(some.trades.length).toBeGreaterThan(0);
  expect(quick.messages).toBeGreaterThan(slow.messages);
  for (const { stream } of all) stream.close();
  // Nobody followed meanwhile: a new reader begins with the next block.
  const late = await open({});
  expect([late.take(), late.take(), late.trades.length]).toEqual([1, 0, 0]);
  late.stream.close();
});

test("a height that is repeated brings its further trades to streams that were opened before and in between", async () => {
  const { url: other } = newDatabaseUrl();
  await migrate(other, log);
  const recording = new RecordingBuilder();
  const loadBlock = async (height: number, ...ids: string[]) => {
    recording.block(height, 5_000_000_000n, (r) => {
      if (height === 1) r.market("m");
      for (const id of ids) r.trade({ id, marketId: "m", price: "5", size: 1n });
    });
    await load({ database: other, sources: [streamSource(inChunks(recording.bytes()), "blocks")], log });
  };
  await loadBlock(1);
  const repeated = await ApiCaller.open(other, { pollIntervalMs: 1 });
  const open = async () => new Reader(await repeated.stream("ObserveTrades", {}));
  const readers = [{ reader: await open(), expected: ["a", "b", "c", "d"] }];
  const expectAll = async () => {
    for (const { reader, expected } of readers) {
      await vi.waitFor(() => {
        reader.take();
        expect(reader.trades.map(({ id }) => id)).toEqual(expected);
      });
    }
  };
  await loadBlock(2, "a", "b");
  await vi.waitFor(() => {
    readers[0]?.reader.take();
    expect(readers[0]?.reader.trades).toHaveLength(2);
  });
  readers.push({ reader: await open(), expected: ["c", "d"] });
  await loadBlock(2, "c", "d");
  await expectAll();
  readers.push({ reader: await open(), expected: [] });
  // A block without trades is repeated, too.
  await loadBlock(3);
  readers.push({ reader: await open(), expected: [] });
  await loadBlock(3, "e");
  for (const { expected } of readers) expected.push("e");
  await expectAll();
  await repeated.opened.close();
});

/** A new database, and what loads a block into it: the first announces a market, each other has a trade of its height. */
async function oneTradeBlocks(): Promise<{ readonly url: string; loadBlock(height: number): Promise<void> }> {
  const { url } = newDatabaseUrl();
  await migrate(url, log);
  const recording = new RecordingBuilder();
  const loadBlock = async (height: number): Promise<void> => {
    recording.block(height, BigInt(height) * 1_000_000_000n, (r) => {
      if (height === 1) r.market("m");
      else r.trade({ id: String(height), marketId: "m", price: "5", size: 1n });
    });
    await load({ database: url, sources: [streamSource(inChunks(recording.bytes()), "blocks")], log });
  };
  return { url, loadBlock };
}

test("trades that could not be read are read again without a further block", async () => {
  const { url: other, loadBlock } = await oneTradeBlocks();
  await loadBlock(1);
  const caller = await ApiCaller.open(other, { pollIntervalMs: 1 });
  const state = caller.opened.live.state();
  const failing = openDatabase(other);
  const lease = vi.spyOn(failing, "lease").mockRejectedValueOnce(unavailable("try again", "SERVER_BUSY", 1));
  const follower = new TradeFollower(failing, state);
  const reader = new Reader(
    caller.opened.live.openFeed("fails once", follower.newest, (owner) => {
      return new TradeFeed(follower, { marketIds: [], partyIds: [] }, owner);
    }),
  );
  await loadBlock(2);
  await vi.waitFor(
    () => {
      reader.take();
      expect(reader.trades.map(({ id }) => id)).toEqual(["2"]);
    },
    { timeout: 20_000 },
  );
  expect(lease).toHaveBeenCalledTimes(2);
  reader.stream.close();
  await caller.opened.close();
  await failing.close();
});

test("readers are woken by each read, also if new blocks come faster than they are read", async () => {
  const { url: other, loadBlock } = await oneTradeBlocks();
  await loadBlock(1);
  const caller = await ApiCaller.open(other, { pollIntervalMs: 1 });
  const slow = openDatabase(other);
  const follower = new TradeFollower(slow, caller.opened.live.state());
  const lease = slow.lease.bind(slow);
  const seenAtRead: number[] = [];
  let height = 2;
  vi.spyOn(slow, "lease").mockImplementation(async (of, use) => {
    reader.take();
    seenAtRead.push(reader.trades.length);
    const read = await lease(of, use);
    const bound = follower.newest;
    // The next block is there before the read of this one has ended.
    if (height < 6) await loadBlock(++height);
    await vi.waitFor(() => expect(height < 6 && follower.newest === bound).toBe(false));
    return read;
  });
  const reader: Reader = new Reader(
    caller.opened.live.openFeed("slow reads", follower.newest, (owner) => {
      return new TradeFeed(follower, { marketIds: [], partyIds: [] }, owner);
    }),
  );
  let wakes = 0;
  const wakesAtTrades: number[] = [];
  reader.stream.onReady(() => {
    wakes++;
    if (reader.take() > 0) wakesAtTrades.push(reader.trades.length);
  });
  reader.take();
  await loadBlock(2);
  await vi.waitFor(() => expect(reader.trades).toHaveLength(5), { timeout: 20_000 });
  expect(wakesAtTrades[0]).toBe(1);
  expect(wakes).toBeGreaterThan(3);
  expect(seenAtRead.at(-1)).toBeGreaterThan(2);
  reader.stream.close();
  await caller.opened.close();
  await slow.close();
});

test("readers that are far behind leave a turn at the database to those that are not", async () => {
  const { url: other, loadBlock } = await oneTradeBlocks();
  await loadBlock(1);
  const caller = await ApiCaller.open(other, { pollIntervalMs: 1 });
  const { live } = caller.opened;
  const store = openDatabase(other);
  const follower = new TradeFollower(store, live.state(), 1);
  const open = (key: string, clientAddress: string) => {
    const makeFeed = (owner: FeedOwner) => new TradeFeed(follower, { marketIds: [], partyIds: [] }, owner);
    return new Reader(live.openFeed(key, follower.newest, makeFeed, clientAddress));
  };
  const quick = open("quick", "10.0.0.1");
  const far = Array.from({ length: 6 }, (_, n) => open(`far ${n}`, "10.0.0.2"));
  for (const reader of [quick, ...far]) expect(reader.take()).toBe(1);
  const has = (reader: Reader, ...ids: string[]) =>
    vi.waitFor(
      () => {
        while (reader.take() > 0);
        expect(reader.trades.map(({ id }) => id)).toEqual(ids);
      },
      { timeout: 10_000 },
    );
  await loadBlock(2);
  await has(quick, "2");
  await loadBlock(3);
  await has(quick, "2", "3");
  let goOn: () => void = () => {};
  const blocked = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const lease = store.lease.bind(store);
  const slow = vi.spyOn(store, "lease").mockImplementation((of, use) => {
    return lease(of, (reader) => blocked.then(() => use(reader)));
  });
  for (const reader of far) expect(reader.take()).toBe(0);
  expect(slow).toHaveBeenCalledTimes(far.length);
  slow.mockRestore();
  await loadBlock(4);
  await has(quick, "2", "3", "4").finally(goOn);
  for (const reader of far) await has(reader, "2", "3", "4");
  await caller.opened.close();
  await store.close();
});

test("an unknown market is refused, and trades that are no longer written end a stream", async () => {
  const unknown = api.stream("ObserveTrades", { marketIds: ["nowhere"] });
  await expect(unknown).rejects.toMatchObject({ code: "not_found", reason: "MARKET_UNKNOWN" });
  const reader = new Reader(await api.stream("ObserveTrades", {}));
  reader.take();
  await database.withConnection(async (connection) => {
    // As a release does that keeps no trades.
    await connection.run("UPDATE progress SET stream_sequence = stream_sequence + 1, height = height + 1");
  });
  await vi.waitFor(() => {
    reader.take();
    expect(reader.stream.failure).toMatchObject({ code: "failed_precondition", reason: "TRADES_NOT_RETAINED" });
  });
});

test("readers of the client library get each trade once where a venue repeats ids and times", async () => {
  const { url: other } = newDatabaseUrl();
  await migrate(other, log);
  const recording = new RecordingBuilder().block(1, 1_000_000_000n, (r) => r.market("m"));
  const parts = [recording.bytes()];
  const count = 400;
  for (let n = 1, bytes = recording.bytes().length; n <= count; n++) {
    // All of them have the same id, and forty blocks the same time.
    const timeNs = BigInt(2 + Math.floor(n / 40)) * 1_000_000_000n;
    recording.block(n + 1, timeNs, (r) => r.trade({ id: "x", marketId: "m", price: `${n}`, size: 1n }));
    parts.push(recording.bytes().subarray(bytes));
    bytes = recording.bytes().length;
  }
  const slowly = async function* () {
    for (const part of parts) {
      yield part;
      await sleep(5);
    }
  };
  const loading = load({ database: other, sources: [streamSource(slowly(), "slow")], blockByBlock: true, log });
  const marketd = await openMarketd({ database: other, logLevel: "silent" });
  const client = createMarketdClient(createRouterTransport(marketd.routes));
  /** Its streams break after a few messages. */
  const cut: MarketdClient = {
    ...client,
    async *observeTrades(request, options) {
      let left = 7;
      for await (const message of client.observeTrades(request, options)) {
        yield message;
        if (--left === 0) throw new ConnectError("cut", Code.Unavailable);
      }
    },
  };
  await vi.waitFor(() => client.getMarket({ marketId: "m" }), { timeout: 20_000 });
  const pricesOf = async (of: MarketdClient, startMs: number) => {
    await sleep(startMs);
    const prices: string[] = [];
    for await (const { price } of readTrades(of, "m")) if (prices.push(price) === count) break;
    return prices;
  };
  const readers = [0, 300, 700, 1_300].flatMap((startMs) => [client, cut].map((of) => pricesOf(of, startMs)));
  const expected = Array.from({ length: count }, (_, n) => `${n + 1}`);
  const [, ...all] = await Promise.all([loading, ...readers]);
  for (const prices of all) expect(prices).toEqual(expected);
  await marketd.close();
});
