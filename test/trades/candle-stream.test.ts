import type { JsonObject } from "@bufbuild/protobuf";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { Failure, unavailable } from "../../src/domain/failure.js";
import type { ResponseStream } from "../../src/domain/service.js";
import { type FeedOwner, nothingSent } from "../../src/live/feed.js";
import { load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { CandleFeed, candlesRememberedMax } from "../../src/trades/candle-feed.js";
import { ApiCaller } from "../support/api-caller.js";
import { newDatabaseUrl } from "../support/database.js";
import { inChunks, RecordingBuilder } from "../support/recording.js";

/* ObserveCandleData while blocks of known trades are loaded. */

const second = 1_000_000_000n;
const { url } = newDatabaseUrl();
const log = createLog("silent");
const builder = new RecordingBuilder();
let height = 0;
let api: ApiCaller;

/** The price of a trade of size 1, or price and size. */
type Trade = number | readonly [price: number, size: bigint];

/** Loads a block at a time in seconds, with these trades. */
async function loadBlock(seconds: number, ...trades: Trade[]): Promise<void> {
  addBlock(seconds, ...trades);
  await loadBlocks();
}

function addBlock(seconds: number, ...trades: Trade[]): void {
  height++;
  builder.block(height, BigInt(seconds) * second, (r) => {
    if (height === 1) r.market("m").market("quiet");
    for (const [n, trade] of trades.entries()) {
      const [price, size] = typeof trade === "number" ? [trade, 1n] : trade;
      r.trade({ id: `${height}-${n}`, marketId: "m", price: `${price}`, size });
    }
  });
}

async function loadBlocks(): Promise<void> {
  await load({ database: url, sources: [streamSource(inChunks(builder.bytes()), "blocks")], log });
}

/** What a stream has sent: start, open, high, low, close and volume of each candle. */
class Reader {
  readonly candles: string[] = [];

  constructor(readonly stream: ResponseStream) {}

  take(): void {
    for (const response of this.stream.take()) {
      const { candle } = JSON.parse(response.jsonText()) as { candle?: JsonObject };
      if (candle === undefined) continue;
      const { start, open, high, low, close, volume } = candle;
      this.candles.push([BigInt(String(start)) / second, open, high, low, close, volume].join(" "));
    }
  }

  async follow(...expected: string[]): Promise<void> {
    await vi.waitFor(
      () => {
        this.take();
        expect(this.candles).toEqual(expected);
      },
      { timeout: 30_000, interval: 2 },
    );
  }
}

beforeAll(async () => {
  await migrate(url, log);
  await loadBlock(60, 5, 7);
  await loadBlock(121, 9);
  api = await ApiCaller.open(url, { pollIntervalMs: 1 });
});

afterAll(() => api.opened.close());

test("readers get the running candle, then each change; slow ones each candle as it is now", async () => {
  const open = async () => new Reader(await api.stream("ObserveCandleData", { candleId: "trades_candle_1_minute_m" }));
  const [quick, slow] = [await open(), await open()];
  await quick.follow("120 9 9 9 9 1");
  await slow.follow("120 9 9 9 9 1");
  await loadBlock(122, 4, 8);
  await quick.follow("120 9 9 9 9 1", "120 9 9 4 8 3");
  await loadBlock(150);
  await loadBlock(179, 10);
  await quick.follow("120 9 9 9 9 1", "120 9 9 4 8 3", "120 9 10 4 10 4");
  await loadBlock(241, 3);
  await quick.follow("120 9 9 9 9 1", "120 9 9 4 8 3", "120 9 10 4 10 4", "240 3 3 3 3 1");
  await slow.follow("120 9 9 9 9 1", "120 9 10 4 10 4", "240 3 3 3 3 1");
  const late = await open();
  await late.follow("240 3 3 3 3 1");
  for (const { stream } of [quick, slow, late]) stream.close();
});

test("trades without size change a candle too, in a block of the same time, also in the block that ends it", async () => {
  const reader = new Reader(await api.stream("ObserveCandleData", { candleId: "trades_candle_1_minute_m" }));
  await reader.follow("240 3 3 3 3 1");
  const most = (1n << 64n) - 1n;
  await loadBlock(260, [5, most - 1n]);
  await loadBlock(260, [4, 0n]);
  const sent = ["240 3 3 3 3 1", `240 3 5 3 5 ${most}`, `240 3 5 3 4 ${most}`];
  await reader.follow(...sent);
  // A volume of more than 64 bits begins another candle.
  await loadBlock(260, [6, 0n], [2, 1n]);
  await reader.follow(...sent, `240 3 6 3 6 ${most}`, "240 2 2 2 2 1");
  reader.stream.close();
});

test("a reader that is too many candles behind is ended, and counted", async () => {
  const open = () => api.stream("ObserveCandleData", { candleId: "trades_candle_block_m" });
  const before = await api.streamMetric("messages_total");
  const [slow, quick] = [new Reader(await open()), new Reader(await open())];
  const first = quick.candles;
  await vi.waitFor(() => {
    for (const reader of [slow, quick]) reader.take();
    expect([slow.candles.length, first.length]).toEqual([1, 1]);
  });
  expect(await api.streamMetric("subscribers")).toEqual({ market_data: 0, trades: 0, candles: 2 });
  for (let n = 0; n < candlesRememberedMax; n++) addBlock(300 + n, 5);
  // What is remembered is sent; one more is too much.
  await loadBlocks();
  await vi.waitFor(() => {
    quick.take();
    expect(first.length).toBe(candlesRememberedMax + 1);
  });
  // Only an empty turn tells that nothing waits.
  quick.take();
  expect(await api.streamMetric("lagging")).toMatchObject({ candles: 1 });
  await loadBlock(2_000, 6);
  await quick.follow(...first, "2000 6 6 6 6 1");
  slow.take();
  expect(slow.candles.length).toBe(1);
  expect(slow.stream.failure).toMatchObject({ code: "unavailable", reason: "READER_STALLED" });
  quick.stream.close();
  expect(await api.streamMetric("subscribers")).toEqual({ market_data: 0, trades: 0, candles: 0 });
  expect(await api.streamMetric("ended_behind_total")).toEqual({ market_data: 0, trades: 0, candles: 1 });
  const after = await api.streamMetric("messages_total");
  expect((after["candles"] ?? 0) - (before["candles"] ?? 0)).toBeGreaterThanOrEqual(candlesRememberedMax + 3);
});

test("a market without trades has no candle before its first, and a wrong id is refused", async () => {
  const stream = await api.stream("ObserveCandleData", { candleId: "trades_candle_1_day_quiet" });
  await expect.poll(() => stream.take().map((response) => response.jsonText())).toEqual(["{}"]);
  expect(stream.take()).toEqual([]);
  stream.close();
  const wrong = api.stream("ObserveCandleData", { candleId: "trades_candle_1_day_nowhere" });
  await expect(wrong).rejects.toMatchObject({ code: "not_found", reason: "MARKET_UNKNOWN" });
});

test("a candle comes after a market was quiet for longer than trades are kept", async () => {
  const { url: other } = newDatabaseUrl();
  await migrate(other, log);
  const recording = new RecordingBuilder();
  let block = 0;
  const loadBlocksAt = async (...times: number[]) => {
    for (const seconds of times) {
      recording.block(++block, BigInt(seconds) * second, (r) => {
        if (block === 1) r.market("m").market("busy");
        r.trade({ id: `busy ${block}`, marketId: "busy", price: "5", size: 1n });
        if (seconds === 1 || seconds >= 500) r.trade({ id: `${block}`, marketId: "m", price: `${seconds}`, size: 1n });
      });
    }
    const sources = [streamSource(inChunks(recording.bytes()), "blocks")];
    await load({ database: other, sources, keepTrades: 60n * second, keepBooks: 60n * second, log });
  };
  await loadBlocksAt(1);
  const caller = await ApiCaller.open(other, { pollIntervalMs: 1 });
  const reader = new Reader(await caller.stream("ObserveCandleData", { candleId: "trades_candle_block_m" }));
  await reader.follow("1 1 1 1 1 1");
  for (let seconds = 2; seconds <= 400; seconds += 10) {
    await loadBlocksAt(seconds, seconds + 5);
    await vi.waitFor(() => expect(caller.opened.live.state().progress.height).toBe(BigInt(block)), { timeout: 20_000 });
    reader.take();
  }
  expect(
    (await caller.failure("ListCandleData", { candleId: "trades_candle_block_m", fromTimestamp: "1" })).reason,
  ).toBe("TRADES_NOT_RETAINED");
  await loadBlocksAt(500);
  await reader.follow("1 1 1 1 1 1", "500 500 500 500 500 1");
  // The check that nothing was dropped comes after a candle is read.
  await loadBlocksAt(501);
  await reader.follow("1 1 1 1 1 1", "500 500 500 500 500 1", "501 501 501 501 501 1");
  expect(reader.stream.failure).toBeUndefined();
  reader.stream.close();
  await caller.opened.close();
});

test("candles that could not be read are read again without a further block", async () => {
  const database = openDatabase(url);
  const state = api.opened.live.state();
  const lease = vi.spyOn(database, "lease").mockRejectedValueOnce(unavailable("try again", "SERVER_BUSY", 1));
  const source = (owner: FeedOwner) => new CandleFeed(database, state, { marketId: "m", seconds: 60 }, owner);
  const reader = new Reader(api.opened.live.openFeed("fails once", nothingSent, source));
  let wakes = 0;
  reader.stream.onReady(() => wakes++);
  await vi.waitFor(
    () => {
      reader.take();
      expect(reader.candles).toHaveLength(1);
    },
    { timeout: 20_000 },
  );
  expect([lease.mock.calls.length, wakes]).toEqual([2, 1]);
  reader.stream.close();
  await database.close();
});

test("what is no longer kept ends the readers that wait for it; others get the newest candle", async () => {
  const database = openDatabase(url);
  const lease = vi.spyOn(database, "lease");
  const lines: string[] = [];
  const caughtLog = pino({}, { write: (line) => lines.push(line) });
  const { live } = api.opened;
  const open = () => {
    const source = ({ wakeAll }: FeedOwner) =>
      new CandleFeed(database, live.state(), { marketId: "m", seconds: 60 }, { wakeAll, log: caughtLog });
    return new Reader(live.openFeed("not kept", nothingSent, source));
  };
  const [quick, sleeping] = [open(), open()];
  for (const reader of [quick, sleeping]) {
    await vi.waitFor(() => {
      reader.take();
      expect(reader.candles).toHaveLength(1);
    });
  }
  lease
    .mockRejectedValueOnce(new Error("a defect"))
    .mockRejectedValueOnce(new Failure("failed_precondition", "not kept", { reason: "TRADES_NOT_RETAINED" }));
  await loadBlock(2_100, 7);
  const notKept = { code: "failed_precondition", reason: "TRADES_NOT_RETAINED" };
  await vi.waitFor(
    () => {
      quick.take();
      expect(quick.stream.failure).toMatchObject(notKept);
    },
    { timeout: 20_000 },
  );
  // One still keeps the source, as it takes nothing.
  const late = open();
  await late.follow("2100 7 7 7 7 1");
  sleeping.take();
  expect(sleeping.stream.failure).toMatchObject(notKept);
  await loadBlock(2_101, 8);
  await late.follow("2100 7 7 7 7 1", "2100 7 8 7 8 2");
  // A failure that clients may be told of is none of the log.
  expect(lines.map((line) => JSON.parse(line).err.message)).toEqual(["a defect"]);
  late.stream.close();
  await database.close();
});

test("a stream of a store without the newest trades fails, and one of part of a period leaves that out", async () => {
  const { url: other } = newDatabaseUrl();
  await migrate(other, log);
  const minute = 60n * second;
  const recording = new RecordingBuilder();
  const loadAt = async (block: number, timeNs: bigint) => {
    const trade = { id: `${block}`, marketId: "m", price: `${block}`, size: 1n };
    recording.block(block, timeNs, (r) => (block === 1 ? r.market("m") : r).trade(trade));
    await load({ database: other, sources: [streamSource(inChunks(recording.bytes()), "blocks")], log });
  };
  await loadAt(1, 1n * minute);
  // A release that keeps no trades has loaded last.
  const database = openDatabase(other);
  await database.withConnection((connection) => connection.run("UPDATE trade_progress SET stream_sequence = 1"));
  const caller = await ApiCaller.open(other, { pollIntervalMs: 1 });
  const open = async () => new Reader(await caller.stream("ObserveCandleData", { candleId: "trades_candle_1_hour_m" }));
  const early = await open();
  await vi.waitFor(() => {
    early.take();
    expect(early.stream.failure).toMatchObject({ code: "failed_precondition", reason: "TRADES_NOT_RETAINED" });
  });
  // From the second block on trades are kept again, and the candle of the hour would have only some of its trades.
  await loadAt(2, 20n * minute);
  await vi.waitFor(() => expect(caller.opened.live.state().progress.height).toBe(2n), { timeout: 20_000 });
  const reader = await open();
  await vi.waitFor(() => expect(reader.stream.take()).toHaveLength(1));
  await loadAt(3, 21n * minute);
  await loadAt(4, 60n * minute);
  await reader.follow("3600 4 4 4 4 1");
  const { edges } = await caller.page("ListCandleData", { candleId: "trades_candle_1_hour_m" });
  expect(edges.map(({ node }) => node["start"])).toEqual([`${60n * minute}`]);
  reader.stream.close();
  await caller.opened.close();
  await database.close();
});

test("a stream of a market without a candle gets all that come, also those that become visible together", async () => {
  const { url: other } = newDatabaseUrl();
  await migrate(other, log);
  const recording = new RecordingBuilder().block(1, second, (r) => r.market("m"));
  const loadAll = () => load({ database: other, sources: [streamSource(inChunks(recording.bytes()), "blocks")], log });
  await loadAll();
  const caller = await ApiCaller.open(other, { pollIntervalMs: 1 });
  const ids = ["trades_candle_block_m", "trades_candle_1_minute_m"];
  const readers = await Promise.all(
    ids.map(async (candleId) => new Reader(await caller.stream("ObserveCandleData", { candleId }))),
  );
  for (const { stream } of readers) await vi.waitFor(() => expect(stream.take()).toHaveLength(1));
  const trade = (id: string, price: string) => (r: RecordingBuilder) => r.trade({ id, marketId: "m", price, size: 1n });
  recording.block(2, 59n * second, trade("a", "5")).block(3, 61n * second, trade("b", "6"));
  await loadAll();
  await readers[0]?.follow("59 5 5 5 5 1", "61 6 6 6 6 1");
  await readers[1]?.follow("0 5 5 5 5 1", "60 6 6 6 6 1");
  for (const { stream } of readers) stream.close();
  await caller.opened.close();
});
