import { PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { afterAll, beforeAll, expect, test } from "vitest";
import { MarketSchema } from "../../gen/vega/markets_pb.js";
import { load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { newDatabaseUrl } from "../support/database.js";
import { RecordingBuilder } from "../support/recording.js";
import { startTestService, type TestService } from "./service.js";

const log = createLog("silent");
const { url } = newDatabaseUrl();
const recording = new RecordingBuilder();
let service: TestService;
let height = 0;

/** Loads a block of what a venue tells, and waits until the service has it. */
function tell(...events: Parameters<RecordingBuilder["venue"]>[0][]): Promise<void> {
  return loadBlocks((r) => {
    for (const event of events) r.venue(event);
  });
}

/** Loads blocks at once, so that the service reads them in one poll, and waits until it has them. */
async function loadBlocks(...blocks: ((recording: RecordingBuilder) => unknown)[]): Promise<void> {
  const loaded = recording.frames.length;
  for (const block of blocks) {
    height++;
    recording.block(height, BigInt(height) * 1_000_000_000n, block);
  }
  const bytes = new PassThrough();
  bytes.end(Buffer.concat(recording.frames.slice(loaded)));
  await load({ database: url, sources: [streamSource(bytes, "test")], log });
  if (service === undefined) return;
  const block = async () => (await fetch(`${service.url}/api/v2/market/a`)).headers.get("x-block-height");
  await expect.poll(block, { timeout: 10_000 }).toBe(`${height}`);
}

const definition = (marketId: string, priceDecimals = 0, sizeDecimals = 0) => ({
  case: "marketDefinition" as const,
  value: { marketId, priceDecimals, sizeDecimals },
});
const snapshot = (marketId: string, price: string, sequenceNumber: bigint) => ({
  case: "bookSnapshot" as const,
  value: { marketId, bids: [{ price, size: "1" }], sequenceNumber },
});
const delta = (marketId: string, price: string, sequenceNumber: bigint) => ({
  case: "bookDelta" as const,
  value: { marketId, bids: [{ price, size: "1" }], sequenceNumber },
});

interface Message {
  readonly result?: {
    readonly update: readonly {
      readonly marketId: string;
      readonly buy: readonly { readonly price: string; readonly volume: string }[];
      readonly previousSequenceNumber: string;
    }[];
  };
  readonly error?: { readonly code: number; readonly message: string; readonly details: readonly object[] };
}

/** A depth stream as lines of JSON. */
class Lines {
  readonly messages: Message[] = [];
  ended = false;

  constructor(...marketIds: string[]) {
    this.#read(marketIds).catch(() => {
      this.ended = true;
    });
  }

  /** The prices that an update of the market has set or removed so far. */
  pricesOf(marketId: string): string[] {
    const updates = this.messages.flatMap(({ result }) => result?.update ?? []);
    return updates.filter((update) => update.marketId === marketId).flatMap(({ buy }) => buy.map(({ price }) => price));
  }

  /** The markets of each update so far. */
  get markets(): string[] {
    return this.messages.flatMap(({ result }) => result?.update.map(({ marketId }) => marketId) ?? []);
  }

  async #read(marketIds: readonly string[]): Promise<void> {
    const query = marketIds.map((id) => `marketIds=${id}`).join("&");
    const response = await fetch(`${service.url}/api/v2/stream/markets/depth/updates?${query}`);
    let rest = "";
    for await (const text of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) this.messages.push(JSON.parse(line));
    }
    if (rest !== "") this.messages.push(JSON.parse(rest));
    this.ended = true;
  }
}

interface Depth {
  readonly buy?: readonly { readonly price: string }[];
}

async function depth(marketId: string): Promise<{ readonly status: number; readonly body: Depth }> {
  const response = await fetch(`${service.url}/api/v2/market/depth/${marketId}/latest`);
  return { status: response.status, body: (await response.json()) as Depth };
}

const stale = (marketId: string) => ({
  code: 14,
  message: `market ${marketId} is stale: updates of its venue were wrong or missing; try again after the venue's next snapshot`,
  details: expect.arrayContaining([
    expect.objectContaining({ reason: "MARKET_STALE" }),
    expect.objectContaining({ retryDelay: "1s" }),
  ]),
});

beforeAll(async () => {
  await migrate(url, log);
  await tell(definition("a"), snapshot("a", "1", 10n), definition("b"), snapshot("b", "2", 10n), definition("c"));
  service = await startTestService(url);
});

afterAll(async () => {
  await service?.drain();
});

test("a market without its first snapshot has no depth and no stream, and joins the streams of all with it", async () => {
  expect(await depth("c")).toEqual({ status: 503, body: stale("c") });
  expect((await depth("a")).status).toBe(200);
  const all = new Lines();
  const one = new Lines("a", "c");
  await expect.poll(() => all.markets).toEqual(["a", "b"]);
  await expect.poll(() => one.ended).toBe(true);
  expect(one.messages).toEqual([stale("c")]);
  await tell(snapshot("c", "3", 1n));
  await expect.poll(() => all.markets).toEqual(["a", "b", "c"]);
  expect(all.messages.at(-1)?.result?.update[0]?.previousSequenceNumber).toBe("0");
  expect(all.ended).toBe(false);
  expect((await depth("c")).body.buy).toEqual([{ price: "3", volume: "1", numberOfOrders: "0" }]);
});

test("a gap ends the streams that hold the market and no others, until its next snapshot", async () => {
  const [all, both, other] = [new Lines(), new Lines("a", "b"), new Lines("a")];
  await expect.poll(() => [all, both, other].map(({ markets }) => markets.length)).toEqual([3, 2, 1]);
  await tell(delta("a", "7", 11n), delta("b", "8", 12n));
  await expect.poll(() => [all.ended, both.ended]).toEqual([true, true]);
  for (const { messages } of [all, both]) expect(messages.at(-1)).toEqual({ error: stale("b") });
  expect(await depth("b")).toEqual({ status: 503, body: stale("b") });
  // The others go on, the stream of all without it, and so does all that is not its book.
  await expect.poll(() => other.markets).toEqual(["a", "a"]);
  expect((await fetch(`${service.url}/api/v2/market/b`)).status).toBe(200);
  const again = new Lines();
  await expect.poll(() => again.markets).toEqual(["a", "c"]);
  const metrics = await (await fetch(`${service.url}/metrics`)).text();
  expect(metrics).toMatch(/^marketd_markets_stale 1$/m);
  await tell(delta("b", "9", 13n), delta("a", "8", 12n));
  await expect.poll(() => again.markets).toEqual(["a", "c", "a"]);
  expect((await depth("b")).status).toBe(503);
  await tell(snapshot("b", "5", 20n));
  await expect.poll(() => again.markets).toEqual(["a", "c", "a", "b"]);
  expect((await depth("b")).body.buy).toEqual([{ price: "5", volume: "1", numberOfOrders: "0" }]);
  expect([again.ended, other.ended]).toEqual([false, false]);
});

test("a market is stale for a service that starts while it is, and for the loader that goes on", async () => {
  await tell(delta("c", "4", 3n));
  const another = await startTestService(url);
  expect((await fetch(`${another.url}/api/v2/market/depth/c/latest`)).status).toBe(503);
  await tell(delta("c", "5", 2n));
  await sleep(50);
  expect((await fetch(`${another.url}/api/v2/market/depth/c/latest`)).status).toBe(503);
  await tell(snapshot("c", "6", 4n), delta("c", "7", 5n));
  const prices = async () => (await depth("c")).body.buy?.map(({ price }) => price);
  await expect.poll(prices).toEqual(["7", "6"]);
  await another.drain();
});

test("who polls with an ETag is told of a market that became stale, and of its book afterwards", async () => {
  const path = `${service.url}/api/v2/market/depth/a/latest`;
  const ask = async (etag: string) => fetch(path, { headers: { "If-None-Match": etag } });
  const etag = (await fetch(path)).headers.get("etag") ?? "";
  for (let times = 0; times < 40; times++) expect((await ask(etag)).status).toBe(304);
  await tell(delta("a", "9", 99n));
  expect((await ask(etag)).status).toBe(503);
  await tell(snapshot("a", "1", 100n));
  expect((await ask(etag)).status).toBe(200);
});

const redefined = (marketId: string) => ({
  error: {
    code: 14,
    message: `market ${marketId} has other decimals than before; discard its book, read the market again, and open the stream again`,
    details: expect.arrayContaining([
      expect.objectContaining({ reason: "MARKET_STALE", metadata: { redefined: "true" } }),
      expect.objectContaining({ retryDelay: "1s" }),
    ]),
  },
});

/** Streams of all markets, of the market and another one, and of another one. */
async function streamsAround(marketId: string): Promise<[Lines, Lines, Lines]> {
  const streams: [Lines, Lines, Lines] = [new Lines(), new Lines("other", marketId), new Lines("other")];
  await expect.poll(() => streams.map(({ markets }) => markets.length > 0)).toEqual([true, true, true]);
  return streams;
}

/** The streams that hold the market end, without a number in its new scale, and the other one goes on. */
async function expectRedefined([all, both, other]: [Lines, Lines, Lines], marketId: string, price: string) {
  await expect.poll(() => [all.ended, both.ended]).toEqual([true, true]);
  for (const stream of [all, both]) {
    expect(stream.messages.at(-1)).toEqual(redefined(marketId));
    expect(stream.pricesOf(marketId)).toEqual([price]);
  }
  const before = other.markets.length;
  await tell(snapshot("other", `${height}`, BigInt(height)));
  await expect.poll(() => other.markets.length).toBe(before + 1);
}

test("new decimals and a book in them, of the same block, end the streams that hold the market", async () => {
  await tell(definition("d", 2), snapshot("d", "100.5", 1n), definition("other"), snapshot("other", "1", 1n));
  const streams = await streamsAround("d");
  await tell(definition("d", 4), snapshot("d", "100.5", 2n));
  await expectRedefined(streams, "d", "10050");
  const again = new Lines("d");
  await expect.poll(() => again.pricesOf("d")).toEqual(["1005000"]);
  expect((await depth("d")).body.buy?.[0]?.price).toBe("1005000");
});

test("other decimals of sizes end them too, and a definition that changes neither does not", async () => {
  const streams = await streamsAround("d");
  await tell(definition("d", 4), delta("d", "7", 3n));
  await expect.poll(() => streams[0].pricesOf("d")).toEqual(["1005000", "70000"]);
  await tell(definition("d", 4, 1), snapshot("d", "7", 4n));
  await expect.poll(() => streams.map(({ ended }) => ended)).toEqual([true, true, false]);
  for (const stream of streams.slice(0, 2)) expect(stream.messages.at(-1)).toEqual(redefined("d"));
});

test("new decimals in a backlog of blocks that is read in one poll end the streams", async () => {
  await tell(definition("e", 2), snapshot("e", "100.5", 1n));
  const streams = await streamsAround("e");
  await loadBlocks(
    (r) => r.venue(delta("e", "3", 2n)),
    (r) => r.venue(definition("e", 1)),
    (r) => r.venue(delta("e", "4", 3n)),
    (r) => r.venue(definition("e", 3)),
    (r) => r.venue(snapshot("e", "100.5", 9n)),
    (r) => r.venue(delta("e", "5", 10n)),
  );
  await expectRedefined(streams, "e", "10050");
});

test("new decimals of a market that stays stale end the streams for that reason, and later those of all again", async () => {
  await tell(definition("f", 2), snapshot("f", "100.5", 1n));
  const streams = await streamsAround("f");
  await tell(definition("f", 3));
  await expectRedefined(streams, "f", "10050");
  expect((await depth("f")).status).toBe(503);
  // Its reader may have read the market since.
  const all = new Lines();
  await expect.poll(() => all.markets).toContain("e");
  await tell(definition("f", 4));
  await expect.poll(() => all.messages.at(-1)).toEqual(redefined("f"));
  await tell(snapshot("f", "100.5", 2n));
});

test("other decimals of a market of orders end its streams, and give its depth another ETag in every process", async () => {
  const before = { id: "g", decimalPlaces: 2n, positionDecimalPlaces: 1n };
  const order = { marketId: "g", id: "1", price: "10050" };
  await loadBlocks((r) => r.market("g", before).order(order));
  const streams = await streamsAround("g");
  const path = "/api/v2/market/depth/g/latest";
  const etagAt = async (url: string) => (await fetch(`${url}${path}`)).headers.get("etag") ?? "";
  const etag = await etagAt(service.url);
  const update = (market: object) => ({ case: "marketUpdated" as const, value: create(MarketSchema, market) });
  await loadBlocks((r) => r.event(update({ ...before, decimalPlaces: 4n })).order({ ...order, price: "1005000" }));
  await expectRedefined(streams, "g", "10050");
  // The book stays, but its numbers mean something else: who holds the response of before gets another.
  const later = await etagAt(service.url);
  await loadBlocks((r) => r.event(update({ ...before, decimalPlaces: 4n, positionDecimalPlaces: 0n })));
  const polled = await fetch(`${service.url}${path}`, { headers: { "If-None-Match": later } });
  expect(polled.status).toBe(200);
  expect(new Set([etag, later, polled.headers.get("etag")]).size).toBe(3);
  const another = await startTestService(url);
  expect(await etagAt(another.url)).toBe(polled.headers.get("etag"));
  const prices = (await (await fetch(`${another.url}${path}`)).json()) as Depth;
  expect(prices.buy?.map(({ price }) => price)).toEqual(["1005000"]);
  await another.drain();
});

/** The events of a depth stream, as a browser gets them that was there before. */
class Events {
  readonly all: { readonly id: string | undefined; readonly event: string | undefined; readonly data: Message }[] = [];
  status = 0;
  ended = false;
  readonly #gone = new AbortController();

  constructor(lastId: string | undefined, marketIds: readonly string[] = [], at: TestService = service) {
    const query = marketIds.map((id) => `marketIds=${id}`).join("&");
    this.#read(`${at.url}/api/v2/stream/markets/depth/updates?${query}`, lastId).catch(() => {
      this.ended = true;
    });
  }

  close(): void {
    this.#gone.abort();
  }

  /** The last id that a browser remembers; undefined: none, or it was made to forget it. */
  get lastId(): string | undefined {
    return this.all.findLast(({ id }) => id !== undefined)?.id || undefined;
  }

  /** The markets of each update so far, and the number that it follows. */
  get updates(): string[] {
    const updates = this.all.flatMap(({ data }) => data.result?.update ?? []);
    return updates.map(({ marketId, previousSequenceNumber }) => `${marketId} ${previousSequenceNumber}`);
  }

  /** The only event is the error that makes the reader discard its books. */
  async expectVoid(marketId: string): Promise<void> {
    await expect.poll(() => this.ended).toBe(true);
    expect(this.status).toBe(200);
    expect(this.all).toEqual([{ id: "", event: "error", data: { error: stale(marketId) } }]);
  }

  async #read(url: string, lastId: string | undefined): Promise<void> {
    const headers = { accept: "text/event-stream", ...(lastId === undefined ? {} : { "last-event-id": lastId }) };
    const response = await fetch(url, { headers, signal: this.#gone.signal });
    this.status = response.status;
    let rest = "";
    for await (const text of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const events = (rest + text).split("\n\n");
      rest = events.pop() ?? "";
      for (const event of events) this.#add(event);
    }
    this.ended = true;
  }

  #add(text: string): void {
    const lines = text.split("\n").map((line) => line.split(/: ?/, 1).concat(line.replace(/^\w+: ?/, "")));
    const fields = new Map(lines as [string, string][]);
    this.all.push({ id: fields.get("id"), event: fields.get("event"), data: JSON.parse(fields.get("data") ?? "{}") });
  }
}

const known = ["a", "b", "c", "d", "e", "f", "g", "other"];
/** The numbers of the updates of two markets that lose some in each of the following tests. */
let number = 0n;

/** Both markets have a book, and no market is stale. */
async function healed(): Promise<void> {
  number += 10n;
  await tell(definition("h"), definition("i"), snapshot("h", "1", number), snapshot("i", "2", number));
  const metrics = await (await fetch(`${service.url}/metrics`)).text();
  expect(metrics).toMatch(/^marketd_markets_stale 0$/m);
}

/** Both lose updates in one block. */
const loseBoth = () => tell(delta("h", "5", number + 5n), delta("i", "5", number + 5n));

/** A stream without an id begins with the whole books of all others. */
async function expectWhole(): Promise<void> {
  const again = new Events(undefined);
  await expect.poll(() => again.updates).toEqual(known.map((id) => `${id} 0`));
  again.close();
}

test("two markets that become stale in one block end an event stream of all, and void its reader's place", async () => {
  await healed();
  const reader = new Events(undefined);
  await expect.poll(() => reader.updates).toEqual([...known, "h", "i"].sort().map((id) => `${id} 0`));
  expect(reader.lastId).not.toBeUndefined();
  await loseBoth();
  await expect.poll(() => reader.ended).toBe(true);
  expect(reader.all.at(-1)).toEqual({ id: "", event: "error", data: { error: stale("h") } });
  expect(reader.lastId).toBeUndefined();
  await expectWhole();
});

test("an event stream of all that broke before markets became stale is void, and begins anew after that", async () => {
  await healed();
  const reader = new Events(undefined);
  await expect.poll(() => reader.updates.length).toBe(known.length + 2);
  reader.close();
  const { lastId } = reader;
  await loseBoth();
  await new Events(lastId).expectVoid("h");
  // Also a process that started since, and one that does not know what the reader has.
  const another = await startTestService(url);
  await new Events(lastId, [], another).expectVoid("h");
  await another.drain();
  await expectWhole();
});

test("an id of other markets, or of an earlier release, voids the place of a reader while a market is stale", async () => {
  await healed();
  const reader = new Events(undefined, ["h"]);
  await expect.poll(() => reader.updates).toEqual(["h 0"]);
  reader.close();
  const ids = [reader.lastId, "12"];
  const whole = new Events(ids[0]);
  await expect.poll(() => whole.updates.length).toBe(known.length + 2);
  whole.close();
  await loseBoth();
  for (const id of ids) await new Events(id).expectVoid("h");
});

test("an event stream of all goes on while a market is stale that its reader has no book of", async () => {
  await healed();
  await tell(definition("without-a-book"));
  const reader = new Events(undefined);
  await expect.poll(() => reader.updates.length).toBe(known.length + 2);
  reader.close();
  await tell(delta("h", "6", number + 1n));
  const another = await startTestService(url);
  for (const process of [service, another]) {
    const again = new Events(reader.lastId, [], process);
    await expect.poll(() => again.all.length).toBeGreaterThan(0);
    expect(again.updates).toEqual([expect.stringMatching(/^h [1-9]/)]);
    again.close();
  }
  await another.drain();
});

test("a market that is stale when it is announced is told to open streams of states", async () => {
  const response = await fetch(`${service.url}/api/v2/stream/markets/depth/replay?resumeToken=live`);
  const states: string[] = [];
  const reading = (async () => {
    for await (const text of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      for (const [, id, state] of text.matchAll(/"marketId":"(\w+)","state":"(\w+)"/g)) states.push(`${id} ${state}`);
    }
  })();
  reading.catch(() => {});
  await expect.poll(() => states.length).toBeGreaterThan(0);
  states.length = 0;
  await tell(definition("announced"));
  await expect.poll(() => states.map((state) => state.replace(/ .*_/, " "))).toEqual(["announced STALE"]);
  await tell(snapshot("announced", "1", 1n));
  await expect
    .poll(() => states.map((state) => state.replace(/ .*_/, " ")))
    .toEqual(["announced STALE", "announced WHOLE"]);
  await response.body?.cancel().catch(() => {});
});
