import { create, toJson } from "@bufbuild/protobuf";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type MarketData, MarketDataSchema } from "../../gen/vega/vega_pb.js";
import type { ResponseStream } from "../../src/domain/service.js";
import { jsonWriteOptions } from "../../src/encoding/json-encoder.js";
import { load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { simulate } from "../../src/simulator/network.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { ApiCaller } from "../support/api-caller.js";
import { newDatabaseUrl } from "../support/database.js";
import { inChunks, RecordingBuilder } from "../support/recording.js";
import { wholeBlocks } from "../trades/trade-model.js";

/* ObserveMarketsData against the market data of a simulated network, while it is loaded block by block. */

const { url } = newDatabaseUrl();
const log = createLog("silent");
const options = { seed: 8, markets: 7, parties: 10, ordersPerBlock: 8, entriesPerBlock: 0 };
const blocks = [...simulate({ ...options, blocks: 120 })];
/** Of each market the data of each block, by the block's time. */
const published = new Map<string, Map<bigint, MarketData>>();
let api: ApiCaller;

function loadBlocks(from: number, to: number): Promise<unknown> {
  const source = streamSource(inChunks(Buffer.concat(blocks.slice(from, to))), "some blocks");
  return load({ database: url, sources: [source], blockByBlock: true, log });
}

/** What a stream has sent. */
class Reader {
  readonly newest = new Map<string, MarketData>();
  messages = 0;

  constructor(readonly stream: ResponseStream) {}

  take(): number {
    const responses = this.stream.take();
    for (const response of responses) {
      const { marketData } = response.message() as unknown as { marketData: MarketData[] };
      expect(JSON.parse(response.jsonText())).toEqual({
        marketData: marketData.map((data) => toJson(MarketDataSchema, data, jsonWriteOptions)),
      });
      this.messages++;
      for (const data of marketData) {
        const before = this.newest.get(data.market)?.timestamp ?? -1n;
        expect(data.timestamp).toBeGreaterThan(before);
        expect(published.get(data.market)?.get(data.timestamp)).toEqual({ ...data });
        this.newest.set(data.market, data);
      }
    }
    return responses.length;
  }

  /** Takes until there is nothing now. */
  async follow(upTo: ReadonlyMap<string, MarketData>): Promise<void> {
    await vi.waitFor(
      () => {
        while (this.take() > 0);
        expect(new Map(this.newest)).toEqual(upTo);
      },
      { timeout: 60_000, interval: 2 },
    );
  }
}

function newestAt(block: number, marketIds?: readonly string[]): Map<string, MarketData> {
  const newest = new Map<string, MarketData>();
  for (const { events, timeNs } of wholeBlocks(Buffer.concat(blocks.slice(0, block)))) {
    for (const { case: kind, value } of events) {
      if (kind !== "marketData" || marketIds?.includes(value.market) === false) continue;
      newest.set(value.market, { ...value, timestamp: timeNs });
    }
  }
  return newest;
}

beforeAll(async () => {
  for (const { events, timeNs } of wholeBlocks(Buffer.concat(blocks))) {
    for (const { case: kind, value } of events) {
      if (kind !== "marketData") continue;
      const ofMarket = published.get(value.market) ?? new Map<bigint, MarketData>();
      published.set(value.market, ofMarket.set(timeNs, { ...value, timestamp: timeNs }));
    }
  }
  await migrate(url, log);
  await loadBlocks(0, 40);
  api = await ApiCaller.open(url, { pollIntervalMs: 1, messageBytesMax: 20_000, heartbeatMs: 300 });
});

afterAll(() => api.opened.close());

test("readers get all there is, then each market's newest data as it changes, however slowly they read", async () => {
  const [marketId = ""] = newestAt(40).keys();
  const open = async (marketIds: string[]) => new Reader(await api.stream("ObserveMarketsData", { marketIds }));
  const [quick, slow, one] = [await open([]), await open([]), await open([marketId, marketId])];
  await quick.follow(newestAt(40));
  await slow.follow(newestAt(40));
  await one.follow(newestAt(40, [marketId]));
  let woken = 0;
  quick.stream.onReady(() => woken++);
  const loaded = loadBlocks(0, 120);
  const until = newestAt(120);
  await quick.follow(until);
  await loaded;
  await slow.follow(until);
  await one.follow(newestAt(120, [marketId]));
  expect(woken).toBeGreaterThan(1);
  expect(quick.messages).toBeGreaterThan(slow.messages);
  for (const { stream } of [quick, slow, one]) stream.close();
});

test("a stream that is silent sends empty messages", async () => {
  const reader = new Reader(await api.stream("ObserveMarketsData", {}));
  await reader.follow(newestAt(120));
  const before = reader.messages;
  await vi.waitFor(() => expect(reader.take()).toBe(1), { timeout: 5_000, interval: 10 });
  expect([reader.messages, reader.newest.size]).toEqual([before + 1, newestAt(120).size]);
  reader.stream.close();
});

test("data of a market that is announced later is sent with the announcement, and changes the list's version", async () => {
  const { url: other } = newDatabaseUrl();
  await migrate(other, log);
  const recording = new RecordingBuilder().block(1, 10n, (r) => {
    r.market("a");
    for (const market of ["a", "b"]) r.event({ case: "marketData", value: create(MarketDataSchema, { market }) });
  });
  const loadAll = () => load({ database: other, sources: [streamSource(inChunks(recording.bytes()), "blocks")], log });
  await loadAll();
  const caller = await ApiCaller.open(other, { pollIntervalMs: 1 });
  const stream = await caller.stream("ObserveMarketsData", {});
  const seen: string[] = [];
  const take = () => {
    for (const response of stream.take()) {
      const { marketData } = response.message() as unknown as { marketData: MarketData[] };
      seen.push(...marketData.map(({ market }) => market));
    }
    return seen;
  };
  const list = () => caller.opened.live.state().list("", () => [...listed()]);
  const listed = () => caller.opened.live.state().announced.flatMap(({ data }) => data ?? []);
  await vi.waitFor(() => expect(take()).toEqual(["a"]));
  const before = list().version;
  recording.block(2, 20n, (r) => r.market("b"));
  await loadAll();
  await vi.waitFor(() => expect(take()).toEqual(["a", "b"]));
  expect(listed()).toHaveLength(2);
  expect(list().version).not.toBe(before);
  stream.close();
  await caller.opened.close();
});

test("an unknown market is refused, and stopping ends a stream", async () => {
  await expect(api.stream("ObserveMarketsData", { marketIds: ["nowhere"] })).rejects.toMatchObject({
    code: "not_found",
    reason: "MARKET_UNKNOWN",
  });
  const stream = await api.stream("ObserveMarketsData", {});
  const stopped = api.opened.live.stop();
  expect(stream.failure).toMatchObject({ code: "unavailable", reason: "DRAINING" });
  expect([stream.ended, stream.take()]).toEqual([true, []]);
  await stopped;
});
