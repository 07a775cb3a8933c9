import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import {
  GetLatestMarketDepthResponseSchema,
  ObserveMarketsDepthUpdatesResponseSchema,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { createApi } from "../../src/api/api.js";
import { DepthBook } from "../../src/domain/depth-book.js";
import type { Codec, EncodedResponse } from "../../src/domain/encoded-response.js";
import type { Call, ResponseStream } from "../../src/domain/service.js";
import { encodeBinary } from "../../src/encoding/binary-encoder.js";
import { encodeJson } from "../../src/encoding/json-encoder.js";
import { History } from "../../src/history/history.js";
import { LedgerReader } from "../../src/ledger/ledger-reader.js";
import { Live } from "../../src/live/live.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { createLog } from "../../src/telemetry/log.js";
import { createMetrics } from "../../src/telemetry/metrics.js";
import { newDatabaseUrl } from "../support/database.js";
import { loadRecording } from "../support/load-recording.js";
import { VenueRecording } from "../support/venue-recording.js";

/* Books that are encoded in turns of the event loop. */

const sideLevels = 10_000;
const { url } = newDatabaseUrl();
const recording = new VenueRecording();
let database: Database;
let live: Live;
let sequence = 0n;

const price = (side: "bids" | "asks", index: number) => ({
  price: `${side === "bids" ? 50_000 - index : 50_001 + index}`,
  size: `${(index % 97) + 1}`,
  numberOfOrders: BigInt(index % 5),
});
const side = (name: "bids" | "asks") => Array.from({ length: sideLevels }, (_, index) => price(name, index));

/** Loads what was told since, and waits until the service has it. */
async function loaded(): Promise<void> {
  await loadRecording(url, recording.bytes());
  const end = recording.sequence - 1n;
  await vi.waitFor(() => expect(live.state().progress.streamSequence).toBe(end), { timeout: 30_000 });
}

const change = (...bids: { readonly price: string; readonly size: string }[]) =>
  recording.delta({ bids, sequenceNumber: ++sequence });

function method(name: string, codec: Codec) {
  const log = createLog("silent");
  const history = new History({ database, live, log });
  const api = createApi({ live, database, ledger: new LedgerReader(database), history, log });
  const found = api.find((one) => one.desc.name === name);
  const call: Call = { signal: new AbortController().signal, clientAddress: "10.0.0.1", requestHeaders: {}, codec };
  return (request: object) =>
    found?.kind === "unary" ? found.invoke(request as never, call) : found?.open(request as never, call);
}

const depth = (maxDepth: bigint, codec: Codec = "json") =>
  method("GetLatestMarketDepth", codec)({ marketId: "m", maxDepth }) as EncodedResponse | Promise<EncodedResponse>;

/** Turns of the event loop until a promise settles. */
async function turnsOf(promise: Promise<unknown>): Promise<number> {
  let turns = 0;
  let settled = false;
  void promise.finally(() => {
    settled = true;
  });
  while (!settled) {
    await new Promise((resolve) => setImmediate(resolve));
    turns++;
  }
  return turns;
}

beforeAll(async () => {
  recording.define().snapshot({ bids: side("bids"), asks: side("asks"), sequenceNumber: ++sequence });
  recording.tell({ case: "trade", value: { marketId: "m", price: "50000", size: "1" } });
  database = openDatabase(url);
  await loadRecording(url, recording.bytes());
  const limits = { pollIntervalMs: 2, depthResponsesBytesMax: 1 << 24 };
  live = await Live.start({ database, log: createLog("silent"), metrics: createMetrics(), limits });
  await loaded();
}, 120_000);

afterAll(async () => {
  await live?.stop();
  await database?.close();
});

test.each<Codec>(["json", "proto"])(
  "the whole book as %s is encoded over many turns of the event loop",
  async (codec) => {
    expect(await turnsOf(Promise.resolve(depth(0n, codec)))).toBeGreaterThan(10);
  },
);

test.each<[Codec, bigint]>([
  ["json", 0n],
  ["proto", 0n],
  ["json", 5_000n],
  ["proto", 5_000n],
  ["json", 7_168n],
  ["proto", 3n],
])("depth as %s of at most %d levels has the bytes of the message", async (codec, maxDepth) => {
  const asked = depth(maxDepth, codec);
  if (maxDepth === 3n) expect(asked).not.toBeInstanceOf(Promise);
  const response = await asked;
  const message = fromBinary(GetLatestMarketDepthResponseSchema, response.binary());
  const most = maxDepth === 0n ? sideLevels : Number(maxDepth);
  expect([message.buy.length, message.sell.length]).toEqual([most, most]);
  expect(message.buy[most - 1]?.price).toBe(`${50_000 - most + 1}00`);
  expect(message.sell[most - 1]?.price).toBe(`${50_000 + most}00`);
  expect(message.lastTrade?.price).toBe("5000000");
  const same = Buffer.from(encodeBinary(GetLatestMarketDepthResponseSchema, message));
  expect(Buffer.compare(same, response.binary())).toBe(0);
  expect(Buffer.compare(same, response.binaryBehind(5).subarray(5))).toBe(0);
  const json = encodeJson(GetLatestMarketDepthResponseSchema, message);
  expect(Buffer.from(response.json()).toString() === json).toBe(true);
  expect(response.jsonText() === json).toBe(true);
});

test("a maxDepth that holds all levels is the whole book's response, with its ETag", async () => {
  const whole = await depth(0n);
  for (const maxDepth of [BigInt(sideLevels), BigInt(sideLevels) + 1n, 2n ** 64n - 1n]) {
    expect(await depth(maxDepth)).toBe(whole);
  }
  const less = await depth(BigInt(sideLevels) - 1n);
  expect(less.version).toBe(`${whole.version}-${sideLevels - 1}`);
});

test("responses of other depths are kept within a budget", async () => {
  const first = await depth(10n);
  expect(await depth(10n)).toBe(first);
  // Each of these is within the budget, and all are not: the first one is dropped.
  for (const maxDepth of [1_700n, 1_701n, 1_702n, 1_703n, 1_704n, 1_705n, 1_706n, 1_707n, 1_708n])
    await depth(maxDepth);
  expect(await depth(10n)).not.toBe(first);
  // Too large to be kept at all.
  expect(await depth(9_000n)).not.toBe(await depth(9_000n));
});

interface OpenStream {
  readonly stream: ResponseStream;
  /** The next messages that are not empty. */
  next(): Promise<readonly EncodedResponse[]>;
}

function openStream(codec: Codec): OpenStream {
  const stream = method("ObserveMarketsDepthUpdates", codec)({ marketIds: ["m"] }) as ResponseStream;
  let wake = () => {};
  stream.onReady(() => wake());
  const next = async (): Promise<readonly EncodedResponse[]> => {
    for (;;) {
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
      });
      const responses = stream.take();
      if (responses.length > 0) return responses;
      await woken;
    }
  };
  return { stream, next };
}

const updatesIn = (responses: readonly EncodedResponse[]) =>
  responses.flatMap((response) => fromBinary(ObserveMarketsDepthUpdatesResponseSchema, response.binary()).update);

test.each<Codec>(["json", "proto"])(
  "a new reader gets the whole book as %s, and then what changed meanwhile",
  async (codec) => {
    await depth(0n, codec);
    change({ price: "50000", size: "123" });
    await loaded();
    const { stream, next } = openStream(codec);
    // The book's levels are being encoded; those that change now are not in them.
    expect(stream.take()).toEqual([]);
    change({ price: "50000", size: "321" });
    await loaded();
    const first = await next();
    expect(first).toHaveLength(1);
    const [message] = first;
    const [whole] = updatesIn(first);
    if (whole === undefined || message === undefined) throw new Error("no update");
    expect([whole.buy.length, whole.sell.length, whole.previousSequenceNumber]).toEqual([sideLevels, sideLevels, 0n]);
    const decoded = fromBinary(ObserveMarketsDepthUpdatesResponseSchema, message.binary());
    expect(Buffer.compare(toBinary(ObserveMarketsDepthUpdatesResponseSchema, decoded), message.binary())).toBe(0);
    const json = encodeJson(ObserveMarketsDepthUpdatesResponseSchema, decoded);
    expect(Buffer.from(message.json()).toString() === json).toBe(true);
    const book = new DepthBook("m");
    expect(book.apply(whole)).toBe("applied");
    expect(book.buy[0]?.volume).toBe(123_000n);
    for (const update of updatesIn(await next())) expect(book.apply(update)).toBe("applied");
    const now = fromBinary(GetLatestMarketDepthResponseSchema, (await depth(0n)).binary());
    expect([book.buy[0]?.volume, book.buy.length, book.sequenceNumber]).toEqual([
      321_000n,
      sideLevels,
      now.sequenceNumber,
    ]);
    stream.close();
  },
);

test("a change of most levels reaches readers as one update, in the order of prices", async () => {
  const { stream, next } = openStream("proto");
  const book = new DepthBook("m");
  for (const update of updatesIn(await next())) book.apply(update);
  change(...side("bids").map(({ price }) => ({ price, size: "777" })));
  await loaded();
  const updates = updatesIn(await next());
  expect(updates.map(({ buy, sell }) => [buy.length, sell.length])).toEqual([[sideLevels, 0]]);
  expect(updates[0]?.buy[0]?.price).toBe("5000000");
  for (const update of updates) expect(book.apply(update)).toBe("applied");
  expect(book.buy.every(({ volume }) => volume === 777_000n)).toBe(true);
  stream.close();
});

test("a reader whose market's decimals change while its book is encoded gets no part of it", async () => {
  change({ price: "50000", size: "5" });
  await loaded();
  const { stream } = openStream("json");
  expect(stream.take()).toEqual([]);
  recording.define({ priceDecimals: 3 });
  await loaded();
  expect(stream.failure?.reasonMetadata).toEqual({ redefined: "true" });
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(stream.take()).toEqual([]);
});
