import { connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { parseResumeToken } from "../../src/domain/resume-token.js";
import type { LiveLimits } from "../../src/live/limits.js";
import { Live } from "../../src/live/live.js";
import { openDatabase } from "../../src/store/database.js";
import { createLog } from "../../src/telemetry/log.js";
import { createMetrics } from "../../src/telemetry/metrics.js";
import { MarketFixture } from "./market-fixture.js";
import { bookText } from "./model-network.js";
import { StreamReader } from "./stream-reader.js";

const log = createLog("silent");
const quick: Partial<LiveLimits> = { pollIntervalMs: 2, reconnectMaxMs: 20, sweepIntervalMs: 10 };
const stops: (() => Promise<void>)[] = [];
let fixture: MarketFixture;

beforeAll(async () => {
  fixture = await MarketFixture.create();
});

afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
  await fixture.empty();
});

afterAll(() => fixture.drop());

async function start(limits: Partial<LiveLimits> = {}, database = fixture.database): Promise<Live> {
  const live = await Live.start({ database, log, metrics: createMetrics(), limits: { ...quick, ...limits } });
  stops.push(() => live.stop());
  return live;
}

function read(live: Live, ids: readonly string[] = []): StreamReader {
  return new StreamReader(live.observe(ids, { clientAddress: "10.0.0.1" }), () => fixture.network);
}

/** Waits until the service is where the network is. */
async function caughtUp(live: Live): Promise<void> {
  await vi.waitFor(() => expect(live.state().progress.streamSequence).toBe(fixture.network.progress.streamSequence), {
    timeout: 20_000,
    interval: 2,
  });
}

const buy = (marketId: string, price: string, volume: bigint) => ({ marketId, side: 1 as const, price, volume });
const sell = (marketId: string, price: string, volume: bigint) => ({ marketId, side: 2 as const, price, volume });

test("a store that was never loaded is not ready, and becomes so by itself", async () => {
  const live = await start();
  const heard: boolean[] = [];
  live.onReadiness((ready) => heard.push(ready));
  expect(live.ready).toBe(false);
  expect(() => live.state()).toThrow("the service has nothing to answer from yet; try again");
  await fixture.add({ announce: ["m"] });
  await expect.poll(() => live.ready).toBe(true);
  expect(heard).toEqual([true]);
});

test("start-up reads the state, and a stream begins with it", async () => {
  await fixture.add({ announce: ["a", "b"], levels: [buy("a", "10", 5n), buy("a", "9", 1n), sell("a", "100", 2n)] });
  await fixture.add({ levels: [buy("a", "10", 0n), buy("a", "8", 4n)], trades: ["a"] });
  const live = await start();
  const reader = read(live);
  reader.drain();
  expect(reader.messages).toBe(1);
  expect(bookText(live.state().requireMarket("a").book.levels)).toEqual({ buy: ["9 1 1", "8 4 1"], sell: ["100 2 1"] });
  expect(reader.sent).toEqual(
    new Map([
      ["a", fixture.network.depth("a")?.publishedSequenceNumber],
      ["b", 0n],
    ]),
  );
});

test("every committed block reaches every reader, whatever it follows and however it reads", async () => {
  await fixture.add({ announce: ["a", "b", "c"], levels: [buy("a", "10", 5n)] });
  const live = await start();
  const readers = [read(live), read(live), read(live, ["a", "a"]), read(live, ["b", "c"])];
  for (let block = 1; block <= 40; block++) {
    const marketId = ["a", "b", "c"][block % 3] ?? "a";
    await fixture.add({ levels: [buy(marketId, String(block % 7), BigInt(block % 3)), sell(marketId, "50", 1n)] });
    if (block % 4 === 0) await caughtUp(live);
    readers[0]?.take();
    if (block % 9 === 0) readers[2]?.take();
  }
  await caughtUp(live);
  for (const reader of readers) reader.drain();
  const published = (id: string) => fixture.network.depth(id)?.publishedSequenceNumber;
  expect(readers.map((reader) => [...reader.sent].sort())).toEqual([
    ["a", "b", "c"].map((id) => [id, published(id)]),
    ["a", "b", "c"].map((id) => [id, published(id)]),
    [["a", published("a")]],
    ["b", "c"].map((id) => [id, published(id)]),
  ]);
  // Each began with whole books, and never needed them again.
  expect(readers.map((reader) => reader.wholeBooks)).toEqual([3, 3, 1, 2]);
});

test("readers that are up to date share responses, and so do those that lag alike", async () => {
  await fixture.add({ announce: ["a"], levels: [buy("a", "10", 5n)] });
  const live = await start();
  const [one, two, three, four] = [0, 1, 2, 3].map(() => live.observe(["a"], { clientAddress: "client" }));
  const first = one?.take()[0];
  expect(two?.take()[0]).toBe(first);
  three?.take();
  four?.take();
  await fixture.add({ levels: [buy("a", "11", 1n)] });
  await caughtUp(live);
  const second = one?.take()[0];
  expect(second?.message().update[0]?.buy.map((level) => level.price)).toEqual(["11"]);
  expect(two?.take()[0]).toBe(second);
  await fixture.add({ levels: [buy("a", "12", 1n)] });
  await caughtUp(live);
  const merged = three?.take()[0];
  expect(merged?.message().update[0]?.buy.map((level) => level.price)).toEqual(["12", "11"]);
  expect(four?.take()[0]).toBe(merged);
  expect(
    one
      ?.take()[0]
      ?.message()
      .update[0]?.buy.map((level) => level.price),
  ).toEqual(["12"]);
});

test("a reader that missed blocks is sent all their levels at once, after the update that it was sent last", async () => {
  await fixture.add({ announce: ["a"], levels: [buy("a", "10", 5n)] });
  const live = await start();
  const [slow, late] = [0, 1].map(() => live.observe(["a"], { clientAddress: "client" }));
  const take = (stream = slow) => stream?.take()[0]?.message().update[0];
  const sent = take();
  for (const price of ["11", "12", "13"]) {
    await fixture.add({ levels: [buy("a", price, 1n)] });
    await caughtUp(live);
  }
  const published = fixture.network.depth("a")?.publishedSequenceNumber;
  const merged = take();
  expect(merged).toMatchObject({ sequenceNumber: published, previousSequenceNumber: sent?.sequenceNumber });
  expect(merged?.buy.map(({ price }) => price)).toEqual(["13", "12", "11"]);
  // It was sent nothing yet, so it still gets the whole book.
  const whole = take(late);
  expect(whole).toMatchObject({ sequenceNumber: published, previousSequenceNumber: 0n });
  expect(whole?.buy.map(({ price }) => price)).toEqual(["13", "12", "11", "10"]);
});

test("a market announced later joins the streams of all, with its whole book", async () => {
  await fixture.add({ announce: ["a"], levels: [buy("b", "10", 5n)] });
  const live = await start();
  const [all, one] = [read(live), read(live, ["a"])];
  for (const reader of [all, one]) reader.drain();
  expect([...all.books.keys()]).toEqual(["a"]);
  await fixture.add({ announce: ["b"] });
  await caughtUp(live);
  for (const reader of [all, one]) reader.drain();
  expect([...all.books.keys()]).toEqual(["a", "b"]);
  expect([...one.books.keys()]).toEqual(["a"]);
});

test("where tombstones were pruned past its place, readers get whole books again", async () => {
  await fixture.add({ announce: ["a", "b"], levels: [buy("a", "10", 5n), buy("a", "9", 1n), buy("b", "7", 1n)] });
  const link = await Link.open(fixture.url);
  stops.push(() => link.close());
  const live = await start({}, link.database);
  const reader = read(live);
  reader.drain();
  link.cut();
  await fixture.add({ levels: [buy("a", "10", 0n)] });
  await fixture.prune();
  await link.mend();
  await caughtUp(live);
  reader.drain();
  // Market b published nothing, so nothing of it is sent.
  expect(reader.wholeBooks).toBe(3);
  expect(bookText(live.state().requireMarket("a").book.levels)).toEqual({ buy: ["9 1 1"], sell: [] });
});

test("while the database is away answers and streams go on, and nothing is missing when it is back", async () => {
  await fixture.add({ announce: ["a"], levels: [buy("a", "10", 5n)] });
  const link = await Link.open(fixture.url);
  stops.push(() => link.close());
  const live = await start({ heartbeatMs: 40 }, link.database);
  const reader = read(live);
  reader.drain();
  for (let round = 1; round <= 3; round++) {
    link.cut();
    await fixture.add({ levels: [buy("a", String(round), 1n)] });
    await fixture.add({ levels: [buy("a", "10", BigInt(round % 2))] });
    await sleep(100);
    reader.drain();
    expect(live.ready).toBe(true);
    expect(reader.heartbeats).toBeGreaterThanOrEqual(round);
    await link.mend();
    await caughtUp(live);
    reader.drain();
    expect(reader.sent.get("a")).toBe(fixture.network.depth("a")?.publishedSequenceNumber);
  }
  expect(reader.wholeBooks).toBe(1);
  expect(reader.stream.failure).toBeUndefined();
});

test("a table that cannot be read is told in one line, without a stack, and followed again when it can", async () => {
  await fixture.add({ announce: ["a"] });
  const lines: string[] = [];
  const logged = pino({ level: "info" }, { write: (line: string) => lines.push(line) });
  const database = fixture.database;
  const run = (sql: string) => database.withConnection((connection) => connection.run(sql));
  await run("ALTER TABLE progress RENAME COLUMN stream_sequence TO stream_sequence_of_tomorrow");
  const live = await Live.start({ database, log: logged, metrics: createMetrics(), limits: quick });
  stops.push(() => live.stop());
  expect(lines.map((line) => (JSON.parse(line) as { msg: string }).msg)).toEqual([
    expect.stringMatching(
      /^the database refused a statement: .*stream_sequence.*; meanwhile there is nothing to answer from$/,
    ),
  ]);
  expect(lines.join()).not.toMatch(/stack|\.ts:|node_modules/);
  await run("ALTER TABLE progress RENAME COLUMN stream_sequence_of_tomorrow TO stream_sequence");
  await vi.waitFor(() => expect(live.ready).toBe(true), { timeout: 20_000, interval: 5 });
});

test("a database that is away at the start is waited for", async () => {
  await fixture.add({ announce: ["a"] });
  const link = await Link.open(fixture.url);
  stops.push(() => link.close());
  link.cut();
  const live = await start({}, link.database);
  expect(live.ready).toBe(false);
  await link.mend();
  await vi.waitFor(() => expect(live.ready).toBe(true), { timeout: 20_000 });
});

test("a replica that lags takes nothing back", async () => {
  await fixture.add({ announce: ["a"], levels: [buy("a", "10", 5n)] });
  const live = await start();
  const reader = read(live);
  reader.drain();
  await fixture.database.withConnection((c) => c.run("UPDATE progress SET stream_sequence = 3, height = 0"));
  await sleep(50);
  expect(live.state().progress.streamSequence).toBe(fixture.network.progress.streamSequence);
  expect(reader.take()).toBe(0);
  await fixture.add({ levels: [buy("a", "11", 5n)] });
  await caughtUp(live);
  reader.drain();
  expect(reader.wholeBooks).toBe(1);
});

test("an emptied store ends the streams, and another chain in it begins afresh", async () => {
  await fixture.add({ announce: ["a", "gone"], levels: [buy("a", "10", 5n)] });
  await fixture.add({ levels: [buy("a", "11", 5n)] });
  const live = await start();
  const heard: boolean[] = [];
  live.onReadiness((ready) => heard.push(ready));
  const reader = read(live);
  reader.drain();
  const before = live.state().requireMarket("a").depth(0n).version;
  await fixture.empty("another-chain");
  await expect.poll(() => live.ready).toBe(false);
  expect(reader.stream.failure).toMatchObject({ code: "unavailable", reason: "CHAIN_CHANGED" });
  expect(reader.stream.ended).toBe(true);
  await fixture.add({ announce: ["a"], levels: [buy("a", "3", 1n)] });
  await expect.poll(() => live.ready).toBe(true);
  expect(heard).toEqual([false, true]);
  const again = read(live);
  again.drain();
  expect([...again.books.keys()]).toEqual(["a"]);
  expect(live.state().requireMarket("a").depth(0n).version).not.toBe(before);
});

test("another chain without a moment of emptiness begins afresh as well", async () => {
  await fixture.add({ announce: ["a"], levels: [buy("a", "10", 5n)] });
  const live = await start({ pollIntervalMs: 200 });
  const reader = read(live);
  reader.drain();
  await fixture.empty("another-chain");
  await fixture.add({ announce: ["b"] });
  await vi.waitFor(() => expect(live.state().chainId).toBe("another-chain"), { timeout: 20_000 });
  expect(reader.stream.failure).toMatchObject({ code: "unavailable", reason: "CHAIN_CHANGED" });
  expect(() => live.state().requireMarket("a")).toThrow("market a is not known");
});

test("silence is broken by an empty message, shared by all", async () => {
  await fixture.add({ announce: ["a"] });
  const live = await start({ heartbeatMs: 50 });
  const streams = [1, 2].map(() => live.observe(["a"], { clientAddress: "client" }));
  const calls = streams.map(() => 0);
  streams.forEach((stream, i) => {
    stream.onReady(() => {
      calls[i] = (calls[i] ?? 0) + 1;
    });
    stream.take();
    expect(stream.take()).toEqual([]);
  });
  await expect.poll(() => calls).toEqual([1, 1]);
  const beats = streams.map((stream) => stream.take());
  expect(beats.map((responses) => responses.length)).toEqual([1, 1]);
  expect(beats[0]?.[0]).toBe(beats[1]?.[0]);
  expect(Buffer.from(beats[0]?.[0]?.json() ?? []).toString()).toBe('{"update":[]}');
  const place = parseResumeToken(beats[0]?.[0]?.eventId ?? "");
  expect(place?.streamSequence).toBe(fixture.network.progress.streamSequence);
});

test("a stream of no market yet begins with an empty message", async () => {
  await fixture.add({ quiet: ["a"] });
  const live = await start();
  const stream = live.observe([], { clientAddress: "client" });
  expect(stream.take().map((response) => Buffer.from(response.json()).toString())).toEqual(['{"update":[]}']);
  expect(stream.take()).toEqual([]);
});

test("stopping ends every stream with UNAVAILABLE and refuses new ones; answers go on", async () => {
  await fixture.add({ announce: ["a"] });
  const live = await start();
  const reader = read(live);
  const stopped = live.stop();
  expect(reader.calls).toBe(1);
  expect(reader.stream.failure).toMatchObject({ code: "unavailable", reason: "DRAINING", retryAfterMs: 1000 });
  expect(reader.take()).toBe(0);
  expect(() => live.observe([], { clientAddress: "client" })).toThrow("the service is shutting down; call again");
  expect(live.state().requireMarket("a").definition).toBeDefined();
  await stopped;
});

test("a message holds as many markets as fit into its limit, and at least one", async () => {
  const ids = ["a", "b", "c", "d"];
  await fixture.add({ announce: ids, levels: ids.map((id) => buy(id, "10", 5n)) });
  const live = await start({ messageBytesMax: 1_200 });
  const responses = live.observe([], { clientAddress: "client" }).take();
  const markets = responses.map((response) => response.message().update.map((update) => update.marketId));
  expect(markets).toEqual([
    ["a", "b"],
    ["c", "d"],
  ]);
  for (const response of responses) expect(response.json().length).toBeLessThanOrEqual(1_200);
  const small = await start({ messageBytesMax: 1 });
  expect(small.observe([], { clientAddress: "client" }).take()).toHaveLength(4);
});

test("waking many readers lets other work pass", async () => {
  await fixture.add({ announce: ["a"] });
  const live = await start({ fanOutSliceMs: 1 });
  const woken: number[] = [];
  let turns = 0;
  const streams = Array.from({ length: 200 }, (_, i) => {
    const stream = live.observe(["a"], { clientAddress: "client" });
    stream.onReady(() => {
      const until = performance.now() + 0.2;
      while (performance.now() < until) {}
      woken.push(i);
      while (stream.take().length > 0) {}
    });
    while (stream.take().length > 0) {}
    return stream;
  });
  const count = (): void => {
    if (woken.length > 0 && woken.length < streams.length) turns++;
    if (woken.length < streams.length) setImmediate(count);
  };
  setImmediate(count);
  await fixture.add({ levels: [buy("a", "10", 5n)] });
  await expect.poll(() => woken).toHaveLength(200);
  expect(woken).toEqual(streams.map((_, i) => i));
  expect(turns).toBeGreaterThan(5);
});

test("ending many readers lets other work pass, and one that fails ends no other", async () => {
  await fixture.add({ announce: ["a"] });
  const live = await start({ fanOutSliceMs: 1 });
  const told: number[] = [];
  let turns = 0;
  const streams = Array.from({ length: 200 }, (_, i) => {
    const stream = live.observe(["a"], { clientAddress: "client" });
    while (stream.take().length > 0) {}
    stream.onReady(() => {
      const until = performance.now() + 0.2;
      while (performance.now() < until) {}
      told.push(i);
      if (i === 7) throw new Error("a listener fails");
    });
    return stream;
  });
  const count = (): void => {
    if (told.length < streams.length) {
      turns++;
      setImmediate(count);
    }
  };
  setImmediate(count);
  const stopped = live.stop();
  expect(streams.map(({ ended, failure }) => [ended, failure?.reason])).toEqual(streams.map(() => [true, "DRAINING"]));
  await expect.poll(() => told).toEqual(streams.map((_, i) => i));
  expect(turns).toBeGreaterThan(5);
  await stopped;
});

/** A way to the database that can be cut. */
class Link {
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;
  #port = 0;

  private constructor(
    private readonly target: URL,
    readonly database: ReturnType<typeof openDatabase>,
    server: Server,
  ) {
    this.#server = server;
  }

  static async open(url: string): Promise<Link> {
    const target = new URL(url);
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const login = `${target.username}${target.password === "" ? "" : `:${target.password}`}`;
    const database = openDatabase(`mysql://${login}@127.0.0.1:${port}${target.pathname}`);
    const link = new Link(target, database, server);
    link.#port = port;
    server.on("connection", (socket) => link.#join(socket));
    return link;
  }

  cut(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  async mend(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(this.#port, "127.0.0.1", resolve));
  }

  async close(): Promise<void> {
    await this.database.close().catch(() => {});
    if (this.#server.listening) this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #join(near: Socket): void {
    const path = this.target.searchParams.get("socket");
    const far = path === null ? connect(Number(this.target.port || 3306), this.target.hostname) : connect(path);
    near.pipe(far).pipe(near);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
  }
}
