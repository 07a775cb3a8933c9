import { fromBinary, type JsonObject } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import {
  GetMarketDepthAtResponseSchema,
  ListMarketDepthChangesResponseSchema,
  type MarketDepthChangeEdge,
  MarketHistoryState as State,
} from "../../gen/marketd/history/v1/market_history_pb.js";
import { createApi } from "../../src/api/api.js";
import type { EncodedResponse } from "../../src/domain/encoded-response.js";
import { sortLevels } from "../../src/domain/price-ladder.js";
import type { Api, Call, ResponseStream } from "../../src/domain/service.js";
import { History } from "../../src/history/history.js";
import { pastLimits } from "../../src/history/past.js";
import { LedgerReader } from "../../src/ledger/ledger-reader.js";
import { Live } from "../../src/live/live.js";
import { createLog } from "../../src/telemetry/log.js";
import { createMetrics } from "../../src/telemetry/metrics.js";
import { bookText, type LevelChange } from "../live/model-network.js";
import { type BlockAt, failureOf, type MarketAt, PastFixture, type PastStep } from "./past-fixture.js";
import { Random } from "./random.js";
import { ReplayReader } from "./replay-reader.js";

const log = createLog("silent");
const markets = ["market-a", "market-b", "market-c"];
const blocksMin = 90;
const startsMax = 5;
const random = new Random(20_261_124);

let past: PastFixture;
let live: Live;
let api: Api;

function start(pollIntervalMs = 2): Promise<Live> {
  const { database } = past.fixture;
  return Live.start({ database, log, metrics: createMetrics(), limits: { pollIntervalMs, heartbeatMs: 60_000 } });
}

function serve(on: Live, history = historyOf(on)): Api {
  const { database } = past.fixture;
  return createApi({ live: on, database, ledger: new LedgerReader(database), history, log });
}

function historyOf(on: Live, limits?: typeof pastLimits): History {
  return new History({ database: past.fixture.database, live: on, log, ...(limits && { limits }) });
}

function newCall(clientAddress = "10.0.0.1"): Call {
  return { signal: new AbortController().signal, clientAddress, requestHeaders: {}, codec: "proto" };
}

function invoke(name: string, request: JsonObject | object, on = api): Promise<EncodedResponse> {
  const method = on.find(({ desc }) => desc.name === name);
  if (method?.kind !== "unary") throw new Error(`${name} is not there`);
  return Promise.resolve(method.invoke(request as never, newCall()));
}

function replay(request: object, on = api, clientAddress = "10.0.0.1"): Promise<ResponseStream> {
  const method = on.find(({ desc }) => desc.name === "ReplayMarketsDepth");
  if (method?.kind !== "server_streaming") throw new Error("no replays are served");
  return Promise.resolve(method.open({ marketIds: [], ...request } as never, newCall(clientAddress)));
}

function level(marketId: string): LevelChange {
  const price = random.pick(["9", "10", "11", "12", "100000000000000000000000000"]);
  return { marketId, side: random.pick([1, 2] as const), price, volume: BigInt(random.below(3)) };
}

const stale = new Set<string>();

/** A block at random. */
function step(): PastStep {
  const announced = past.network.announced;
  const fresh = announced.filter((id) => !stale.has(id));
  const changed = fresh.filter(() => random.below(2) === 0);
  const levels = new Map(
    changed
      .flatMap((id) => Array.from({ length: random.below(4) }, () => level(id)))
      .map((each) => {
        return [`${each.marketId} ${each.side} ${each.price}`, each] as const;
      }),
  );
  const base = { levels: [...levels.values()], trades: changed.filter(() => random.below(4) === 0) };
  const roll = random.below(30);
  if (roll === 0) return { ...base, announce: [random.pick(markets.filter((id) => !stale.has(id)))] };
  const market = random.pick(fresh.length > 0 ? fresh : markets);
  if (roll === 1 && stale.size === 0 && fresh.length > 0) {
    stale.add(market);
    return { ...base, levels: base.levels.filter(({ marketId }) => marketId !== market), stale: [market] };
  }
  if (roll < 6 && stale.size > 0) {
    const [id = ""] = stale;
    stale.delete(id);
    return { ...base, levels: [...base.levels, level(id)], healed: [id] };
  }
  if (roll === 6 && stale.size === 0 && past.blocks.length % 3 === 0) return { ...base, trades: [], unkept: true };
  return base;
}

/** Makes every market whole, as it has to be before blocks that are not kept. */
async function heal(): Promise<void> {
  await past.add({ healed: [...stale] });
  stale.clear();
}

beforeAll(async () => {
  past = await PastFixture.create();
  await past.add({ announce: ["market-a"] });
  await past.add({ announce: ["market-b"], levels: [level("market-a")], trades: ["market-a"] });
  while (past.blocks.length < blocksMin) await past.add(step());
  await heal();
  await past.add({});
  live = await start();
  api = serve(live);
  await seen();
});

afterAll(async () => {
  await live.stop();
  await past.fixture.drop();
});

async function seen(on = live): Promise<void> {
  const newest = past.network.progress.streamSequence;
  await vi.waitFor(() => expect(on.state().progress.streamSequence).toBe(newest), { timeout: 20_000, interval: 2 });
}

const marketAt = (block: BlockAt, id: string): MarketAt | undefined => block.markets.get(id);

/** A block's change of a market, as it has to be listed; undefined: none. */
function changeOf(block: BlockAt, id: string): object | undefined {
  const market = marketAt(block, id);
  if (market === undefined || market.state !== "whole") return undefined;
  const before = past.blocks[past.blocks.indexOf(block) - 1]?.markets.get(id);
  if (market.begins) return { at: block.height, number: market.number, previous: 0n, ...market.book };
  if (market.changed.length === 0) return undefined;
  const sorted = sortLevels(market.changed);
  const side = (wanted: number) => sorted.filter((each) => each.side === wanted);
  return {
    at: block.height,
    number: market.number,
    previous: before?.number ?? 0n,
    ...bookText({ buy: side(1), sell: side(2) }),
  };
}

function edgeFacts({ block, update }: MarketDepthChangeEdge): object {
  if (update === undefined) throw new Error("an edge has an update");
  return {
    at: block?.height,
    number: update.sequenceNumber,
    previous: update.previousSequenceNumber,
    ...bookText(update),
  };
}

const reasons = {
  whole: "",
  stale: "MARKET_WAS_STALE",
  unkept: "HISTORY_NOT_KEPT",
  unknown: "MARKET_UNKNOWN",
};

describe("a book of the past", () => {
  const depthAt = async (request: object) =>
    fromBinary(GetMarketDepthAtResponseSchema, (await invoke("GetMarketDepthAt", request)).binary());

  /** The book, or why there is none. */
  async function checkAt(marketId: string, block: BlockAt, place: object): Promise<void> {
    const market = marketAt(block, marketId);
    const where = `${marketId} at ${block.height}`;
    const { height, timeNs: timestamp, streamSequence } = block;
    if (market?.state === "whole") {
      const response = await depthAt({ marketId, ...place });
      expect(bookText(response), where).toEqual(market.book);
      expect(response.sequenceNumber).toBe(market.number);
      expect(response.decimalPlaces).toBe(market.decimals);
      expect(response.lastTrade?.id).toBe(market.trade);
      expect(response.block).toMatchObject({ height, timestamp, streamSequence });
      return;
    }
    const failure = await failureOf(depthAt({ marketId, ...place }));
    expect(failure.reason, where).toBe(reasons[market?.state ?? "unknown"]);
    if (failure.reason === "MARKET_UNKNOWN") return;
    const nearest = failure.reasonMetadata["nearest_stream_sequence"];
    const there = await depthAt({ marketId, streamSequence: BigInt(nearest ?? 0) });
    expect(String(there.block?.height)).toBe(failure.reasonMetadata["nearest_height"]);
    expect(String(there.block?.timestamp)).toBe(failure.reasonMetadata["nearest_timestamp"]);
  }

  test("is what it was at every block, by height, time and stream sequence", async () => {
    const states = new Set<string>();
    for (const block of past.blocks) {
      const { height: blockHeight, timeNs: timestamp, streamSequence } = block;
      const places = [{ blockHeight }, { timestamp }, { streamSequence }];
      if (block !== past.blocks.at(-1)) places.push({ streamSequence: streamSequence + 1n });
      for (const marketId of past.network.announced) {
        states.add(marketAt(block, marketId)?.state ?? "unknown");
        for (const place of places) await checkAt(marketId, block, place);
      }
    }
    expect([...states].sort()).toEqual(["stale", "unkept", "unknown", "whole"]);
  });

  test("may be kept for ever once a later block is there, and has an ETag of its size", async () => {
    const [first, last] = [past.blocks[5], past.blocks.at(-1)];
    const final = await invoke("GetMarketDepthAt", { marketId: "market-a", blockHeight: first?.height });
    expect(final.metadata?.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
    expect(final.version).toContain(`-at-${first?.streamSequence}`);
    const newest = await invoke("GetMarketDepthAt", { marketId: "market-a", blockHeight: last?.height });
    expect(newest.metadata?.headers.get("cache-control")).toBeUndefined();
    const cut = await depthAt({ marketId: "market-a", blockHeight: last?.height, maxDepth: 1n });
    expect(Math.max(cut.buy.length, cut.sell.length)).toBeLessThanOrEqual(1);
  });

  test("is not there before its time, nor without a place", async () => {
    const { height, timeNs } = past.network.progress;
    for (const place of [{ blockHeight: height + 1n }, { timestamp: timeNs + 1n }]) {
      const failure = await failureOf(depthAt({ marketId: "market-a", ...place }));
      expect(failure).toMatchObject({ code: "out_of_range", reason: "HISTORY_NOT_YET" });
      expect(failure.reasonMetadata["nearest_height"]).toBe(String(height));
    }
    expect(await failureOf(depthAt({ marketId: "market-a" }))).toMatchObject({ code: "invalid_argument" });
    const both = depthAt({ marketId: "market-a", blockHeight: 1n, timestamp: 1n });
    expect(await failureOf(both)).toMatchObject({ code: "invalid_argument" });
    expect(await failureOf(depthAt({ marketId: "nowhere", blockHeight: 1n }))).toMatchObject({ code: "not_found" });
  });
});

describe("the changes of a book", () => {
  const page = async (request: object) => {
    const response = await invoke("ListMarketDepthChanges", request);
    const { changes } = fromBinary(ListMarketDepthChangesResponseSchema, response.binary());
    if (changes?.pageInfo === undefined) throw new Error("a response has a page");
    return { edges: changes.edges, info: changes.pageInfo };
  };

  /** All pages of a size, from one end or the other. */
  async function readAll(request: object, size: number, newestFirst: boolean, backwards: boolean): Promise<object[]> {
    const pages: object[][] = [];
    let cursor: string | undefined;
    for (;;) {
      const pagination = backwards ? { last: size, before: cursor } : { first: size, after: cursor };
      const { edges, info } = await page({ ...request, pagination: { ...pagination, newestFirst } });
      expect(backwards ? info.hasNextPage : info.hasPreviousPage).toBe(cursor !== undefined);
      pages.push(edges.map(edgeFacts));
      cursor = backwards ? info.startCursor : info.endCursor;
      if (!(backwards ? info.hasPreviousPage : info.hasNextPage)) break;
    }
    return (backwards ? pages.reverse() : pages).flat();
  }

  test("are all there, in pages of any size, read both ways", async () => {
    let listed = 0;
    for (let n = 0; n < 60; n++) {
      const marketId = random.pick(past.network.announced);
      const from = random.below(past.blocks.length);
      const until = from + random.below(past.blocks.length - from + 1);
      const newestFirst = random.below(2) === 0;
      const blocks = past.blocks.slice(from, until);
      const whole = newestFirst ? blocks.toReversed() : blocks;
      const gap = whole.findIndex((block) => marketAt(block, marketId)?.state !== "whole");
      const expected = whole.slice(0, gap < 0 ? undefined : gap).flatMap((block) => changeOf(block, marketId) ?? []);
      const request = {
        marketId,
        fromBlockHeight: past.blocks[from]?.height,
        untilStreamSequence: past.blocks[until]?.streamSequence ?? past.network.progress.streamSequence + 1n,
      };
      if (gap === 0) {
        expect((await failureOf(page({ ...request, pagination: { newestFirst } }))).reason).toMatch(
          /STALE|KEPT|UNKNOWN/,
        );
        continue;
      }
      for (const backwards of [false, true]) {
        expect(
          await readAll(request, 1 + random.below(9), newestFirst, backwards),
          JSON.stringify([marketId, from, until]),
        ).toEqual(expected);
      }
      listed += expected.length;
    }
    expect(listed).toBeGreaterThan(100);
  });
});

describe("a replay", () => {
  const whole = (blocks: readonly BlockAt[], id: string) =>
    blocks.every((block) => marketAt(block, id)?.state === "whole");

  test("holds the right books at every message, and with every update they are those of the list", async () => {
    for (let n = 0; n < 30; n++) {
      const ids = n % 3 === 0 ? [] : [random.pick(["market-a", "market-b"])];
      const from = 1 + random.below(past.blocks.length - 2);
      const until = from + 1 + random.below(past.blocks.length - from);
      const start = past.blocks[from];
      const end = past.blocks[until];
      const everyUpdate = n % 2 === 0;
      if (start === undefined || [...start.markets.values()].every(({ state }) => state === "unkept")) continue;
      const request = {
        marketIds: ids,
        fromTimestamp: start.timeNs,
        untilStreamSequence: end?.streamSequence ?? past.network.progress.streamSequence + 1n,
        everyUpdate,
      };
      const reader = new ReplayReader(past, ids);
      await reader.read(await replay(request));
      expect(reader.caughtUp).toBe(0);
      expect(reader.blocks).toBeGreaterThan(0);
      const [id] = ids;
      const between = past.blocks.slice(from, until);
      if (!everyUpdate || id === undefined || !whole(between, id)) continue;
      const updates = reader.messages.slice(1).flatMap(({ update, block }) =>
        update.map((each) => ({
          at: block?.height,
          number: each.sequenceNumber,
          previous: each.previousSequenceNumber,
          ...bookText(each),
        })),
      );
      expect(updates).toEqual(between.slice(1).flatMap((block) => changeOf(block, id) ?? []));
    }
  });

  test.each([
    ["nothing", 0],
    ["some", 500],
  ])("holds of all markets' segments %s, as its limits say, and is right all the same", async (_, heldBytesMax) => {
    const history = historyOf(live, { ...pastLimits, heldBytesMax, decodedLevelsMax: 1 });
    const limited = serve(live, history);
    const { held } = history.past;
    let [cursors, bytes] = [0, 0];
    const sample = setInterval(() => {
      [cursors, bytes] = [Math.max(cursors, held.cursors), Math.max(bytes, held.bytes)];
    }, 0);
    const untilStreamSequence = past.network.progress.streamSequence + 1n;
    const last = past.blocks.findLast((block) => markets.some((id) => changeOf(block, id) !== undefined));
    const readers = Array.from({ length: 20 }, async (__, n) => {
      const request = { untilStreamSequence, everyUpdate: n % 2 === 0, fromBlockHeight: past.blocks[n]?.height };
      const reader = new ReplayReader(past, []);
      await reader.read(await replay(request, limited, `10.0.1.${n}`));
      expect(reader.place).toBe(last?.streamSequence);
    });
    await Promise.all(readers);
    clearInterval(sample);
    expect(cursors).toBeGreaterThan(40);
    expect(bytes).toBeLessThanOrEqual(heldBytesMax);
    expect(bytes > 0).toBe(heldBytesMax > 0);
    expect(held).toEqual({ cursors: 0, bytes: 0 });
  });

  test("takes the turns of its client, as books and pages do", async () => {
    const history = historyOf(live);
    const on = serve(live, history);
    const turns = vi.spyOn(history.past.turns, "next");
    const request = { fromBlockHeight: past.blocks[3]?.height, untilBlockHeight: BigInt(blocksMin), everyUpdate: true };
    await new ReplayReader(past, []).read(await replay(request, on, "10.0.2.1"));
    expect(turns.mock.calls.every(([client]) => client === "10.0.2.1")).toBe(true);
    const height = past.blocks[5]?.height;
    for (const [name, place] of [
      ["GetMarketDepthAt", { blockHeight: height }],
      ["ListMarketDepthChanges", { fromBlockHeight: height }],
    ] as const) {
      turns.mockClear();
      await invoke(name, { marketId: "market-a", ...place }, on);
      expect(turns.mock.calls.length).toBeGreaterThan(0);
      expect(turns.mock.calls.every(([client]) => client === "10.0.0.1")).toBe(true);
    }
  });

  test("holds few bytes for a reader that takes nothing", async () => {
    const readyBytesMax = 1_000;
    const limited = serve(live, historyOf(live, { ...pastLimits, readyBytesMax }));
    const request = { fromBlockHeight: past.blocks[3]?.height, untilBlockHeight: BigInt(blocksMin), everyUpdate: true };
    const stream = await replay(request, limited);
    // It reads until it has as much as it may.
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    const sizes = stream.take().map((response) => response.binary().length);
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    expect(bytes).toBeGreaterThanOrEqual(readyBytesMax);
    expect(bytes - (sizes.at(-1) ?? 0)).toBeLessThan(readyBytesMax);
    stream.close();
  });

  test.each([
    ["in the past", { everyUpdate: true, untilBlockHeight: BigInt(blocksMin) }],
    ["when it becomes live", {}],
  ])("ends if its reader throws %s", async (_, request) => {
    const stream = await replay({ fromBlockHeight: past.blocks[0]?.height, ...request });
    stream.onReady(() => {
      throw new Error("a fault of the reader's");
    });
    await vi.waitFor(() => expect(stream.ended).toBe(true), { timeout: 20_000 });
    expect(stream.take()).toEqual([]);
  });

  /** Reads from a random place on until it is live, with some broken connections before. */
  async function readOn(n: number): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, n * 20));
    const marketIds = n % 2 === 0 ? [] : [random.pick(["market-a", "market-b"])];
    const newest = live.state().progress.streamSequence;
    const kept = past.blocks.filter(({ streamSequence, markets }) => {
      return streamSequence <= newest && [...markets.values()].some(({ state }) => state !== "unkept");
    });
    const fromStreamSequence = n % 5 === 4 ? undefined : random.pick(kept).streamSequence;
    const reader = new ReplayReader(past, marketIds);
    const clientAddress = `10.0.0.${n}`;
    for (let breaks = random.below(4); breaks >= 0; breaks--) {
      const place = reader.token === "" ? { fromStreamSequence } : { resumeToken: reader.token };
      const most = reader.blocks + (breaks === 0 ? 1_000_000 : 1 + random.below(30));
      reader.caughtUp = 0;
      await reader.read(
        await replay({ marketIds, ...place }, random.below(2) === 0 ? api : started, clientAddress),
        () => reader.blocks >= most || reader.liveBlocks > 15,
      );
    }
    expect(reader.caughtUp).toBe(1);
  }

  /** The methods of a process that has just started. */
  let started: Api;

  /** Starts some processes, one after the other, until `done` settles. All of them poll the database until then. */
  async function startAgain(done: Promise<unknown>): Promise<number> {
    let isOver = false;
    const end = () => {
      isOver = true;
    };
    done.then(end, end);
    const lives: Live[] = [];
    while (!isOver) {
      if (lives.length < startsMax) {
        const fresh = await start(20);
        started = serve(fresh);
        lives.push(fresh);
      }
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
    for (const one of lives) await one.stop();
    return lives.length;
  }

  test("becomes the live stream while markets trade, and resumes at any process, also one that just started", async () => {
    started = api;
    let running = true;
    const trading = (async () => {
      while (running) {
        await past.add({ ...step(), unkept: false });
        await new Promise((resolve) => setTimeout(resolve, 30));
      }
    })();
    try {
      const readers = Array.from({ length: 24 }, (_, n) => readOn(n));
      const reading = Promise.all(readers);
      const starts = startAgain(reading);
      await reading;
      expect(await starts).toBeGreaterThan(1);
    } finally {
      running = false;
      await trading;
    }
    await seen();
  });

  test("becomes the live stream also while the past is not written", async () => {
    await heal();
    for (const process of ["one that saw all", "one that just started"]) {
      const fresh = process === "one that saw all" ? live : await start();
      await past.add({ levels: [level("market-a")], unkept: true });
      await past.add({ levels: [level("market-a"), level("market-b")], unkept: true });
      await seen();
      await seen(fresh);
      const reader = new ReplayReader(past, []);
      const stream = await replay({ fromBlockHeight: past.blocks[5]?.height }, serve(fresh));
      const reading = reader.read(stream, () => reader.liveBlocks > 1);
      await vi.waitFor(() => expect(reader.caughtUp, process).toBe(1), { timeout: 20_000 });
      await past.add({ levels: [level("market-b")] });
      await reading;
      expect(reader.place).toBe(past.network.progress.streamSequence);
      if (fresh !== live) await fresh.stop();
    }
  });

  test("goes on where the past is kept, if what it was to read next is dropped", async () => {
    const newest = past.network.progress.streamSequence;
    const request = { untilStreamSequence: newest + 1n, everyUpdate: true, fromBlockHeight: past.blocks[3]?.height };
    const stream = await replay(request);
    const reader = new ReplayReader(past, []);
    // It has read as much as it may before its reader takes something.
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    await past.prune(newest);
    await reader.read(stream);
    expect(reader.messages.some(({ status }) => status.some(({ state }) => state === State.STALE))).toBe(true);
    expect([...reader.states.values()]).not.toContain(State.STALE);
  });
});
