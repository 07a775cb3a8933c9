import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { afterAll, beforeAll, expect, test } from "vitest";
import { WebSocket } from "ws";
import { ObserveMarketsDepthUpdatesResponseSchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { ReplayMarketsDepthResponseSchema } from "../../gen/marketd/history/v1/market_history_pb.js";
import { parseResumeToken, ResumeTokens, selectionHash } from "../../src/domain/resume-token.js";
import { replaysPerAddressMax } from "../../src/history/history.js";
import { BookChecker } from "../live/book-checker.js";
import { startTestService, type TestService } from "../live/service.js";
import { openClients } from "../support/protocol-clients.js";
import { PastFixture } from "./past-fixture.js";
import { ReplayReader } from "./replay-reader.js";

const path = "/api/v2/stream/markets/depth/replay";
const livePath = "/api/v2/stream/markets/depth/updates";
let past: PastFixture;
let service: TestService;
let volume = 0n;

/** A block that changes both books. */
function trade(): Promise<void> {
  volume++;
  const price = String(10n + (volume % 7n));
  return past.add({
    levels: [
      { marketId: "a", side: 1, price, volume: volume % 3n },
      { marketId: "b", side: 2, price, volume },
    ],
  });
}

beforeAll(async () => {
  past = await PastFixture.create();
  await past.add({ announce: ["a", "b"] });
  for (let n = 0; n < 40; n++) await trade();
  service = await startTestService(past.fixture.url);
});

afterAll(async () => {
  await service.drain();
  await past.fixture.drop();
});

/** Trades until `done` settles. */
async function whileTrading<T>(done: Promise<T>): Promise<T> {
  let isOver = false;
  const end = () => {
    isOver = true;
  };
  done.then(end, end);
  while (!isOver) {
    await trade();
    await sleep(5);
  }
  return done;
}

interface ServerEvent {
  readonly id: string | undefined;
  readonly event: string | undefined;
  readonly data: { readonly result?: JsonValue; readonly error?: { readonly details: readonly object[] } };
}

/** Reads events until `enough`, as a browser would that was there before. */
async function readEvents(url: string, lastId: string, enough: (event: ServerEvent) => boolean): Promise<void> {
  const gone = new AbortController();
  const headers = { accept: "text/event-stream", ...(lastId === "" ? {} : { "last-event-id": lastId }) };
  const response = await fetch(service.url + url, { headers, signal: gone.signal });
  expect(response.status).toBe(200);
  let rest = "";
  const decoder = new TextDecoder();
  try {
    for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
      const events = (rest + decoder.decode(chunk, { stream: true })).split("\n\n");
      rest = events.pop() ?? "";
      if (events.some((text) => enough(parseEvent(text)))) gone.abort();
    }
  } catch (error) {
    if (!gone.signal.aborted) throw error;
  }
}

function parseEvent(text: string): ServerEvent {
  const fields = new Map(text.split("\n").map((line) => /^(\w+): ?(.*)$/.exec(line)?.slice(1, 3) as [string, string]));
  return { id: fields.get("id"), event: fields.get("event"), data: JSON.parse(fields.get("data") ?? "") };
}

test("a replay becomes the live stream in every protocol", async () => {
  const request = { marketIds: ["a", "b"], fromBlockHeight: "5" };
  // On a busy machine a replay is behind by some blocks until it joins.
  const count = past.blocks.length + 100;
  const clients = openClients(service.url);
  const reading = clients.map(async (client) => ({
    client,
    outcomes: await client.stream("replayMarketsDepth", request, count),
  }));
  const socket = new WebSocket(`${service.url.replace("http", "ws")}${path}?fromBlockHeight=5`);
  const texts: string[] = [];
  socket.on("message", (data) => {
    if (texts.push(String(data)) === count) socket.close();
  });
  const [results] = await whileTrading(Promise.all([Promise.all(reading), once(socket, "close")]));
  for (const { client, outcomes } of results) {
    const reader = new ReplayReader(past, request.marketIds);
    for (const outcome of outcomes) {
      if ("error" in outcome) throw new Error(`${client.name}: ${outcome.error.message}`);
      reader.fold(fromJson(ReplayMarketsDepthResponseSchema, outcome.reply));
    }
    expect([client.name, reader.caughtUp, outcomes.length]).toEqual([client.name, 1, count]);
    client.close();
  }
  const reader = new ReplayReader(past, []);
  for (const text of texts) reader.fold(fromJson(ReplayMarketsDepthResponseSchema, JSON.parse(text).result));
  expect(reader.caughtUp).toBe(1);
});

test("the word live in place of a token opens a stream at the newest books, in every protocol", async () => {
  const clients = openClients(service.url);
  const request = { marketIds: ["a", "b"], resumeToken: "live" };
  const count = 5;
  const reading = clients.map((client) => client.stream("replayMarketsDepth", request, count));
  const results = await whileTrading(Promise.all(reading));
  for (const [index, client] of clients.entries()) {
    const reader = new ReplayReader(past, request.marketIds);
    const messages = (results[index] ?? []).map((outcome) => {
      if ("error" in outcome) throw new Error(`${client.name}: ${outcome.error.message}`);
      return fromJson(ReplayMarketsDepthResponseSchema, outcome.reply);
    });
    for (const message of messages) reader.fold(message);
    const [first] = messages;
    expect([client.name, messages.length, first?.caughtUp, first?.status.length]).toEqual([
      client.name,
      count,
      true,
      2,
    ]);
    expect(parseResumeToken(first?.resumeToken ?? "")?.streamSequence).toBe(first?.block?.streamSequence);
    for (const part of [{ untilTimestamp: "1" }, { speed: "2" }, { fromBlockHeight: "5" }]) {
      const [refused] = await client.stream("replayMarketsDepth", { ...request, ...part }, 1);
      expect(refused, client.name).toMatchObject({ error: { code: 3 } });
    }
    client.close();
  }
});

test("a client of server-sent events goes on where it was, in a replay and in the depth stream", async () => {
  const reader = new ReplayReader(past, []);
  const checker = new BookChecker(() => past.network);
  const ids = { replay: "", live: "" };
  const reconnect = async (): Promise<void> => {
    for (let n = 0; n < 12; n++) {
      let left = 1 + (n % 4);
      reader.caughtUp = 0;
      await readEvents(`${path}?fromBlockHeight=7`, ids.replay, ({ id, data }) => {
        reader.fold(fromJson(ReplayMarketsDepthResponseSchema, data.result ?? null));
        ids.replay = id ?? ids.replay;
        return reader.caughtUp > 0 && --left === 0;
      });
      left = 1 + (n % 4);
      await readEvents(livePath, ids.live, ({ id, data }) => {
        const { update } = fromJson(ObserveMarketsDepthUpdatesResponseSchema, data.result ?? null);
        for (const each of update) checker.check(each);
        ids.live = id ?? ids.live;
        return --left === 0;
      });
    }
  };
  await whileTrading(reconnect());
  expect(parseResumeToken(ids.live)?.kind).toBe("live");
  expect(reader.token).toBe(ids.replay);
  // One whole book of each market, at the start.
  expect(checker.wholeBooks).toBe(2);
});

test("an event stream of another store makes its reader forget its place", async () => {
  const token = new ResumeTokens(Buffer.alloc(8, 1), Buffer.alloc(8, 2)).at("live", 10n);
  for (const url of [livePath, path]) {
    const events: ServerEvent[] = [];
    await readEvents(url, token, (event) => events.push(event) > 0);
    expect(events[0]).toMatchObject({ id: "", event: "error" });
    expect(JSON.stringify(events[0]?.data.error)).toContain("CHAIN_CHANGED");
  }
  const refused = await fetch(`${service.url}${path}?resumeToken=${token}`);
  expect([refused.status, JSON.stringify(await refused.json())]).toEqual([
    400,
    expect.stringContaining("CHAIN_CHANGED"),
  ]);
  const malformed = await fetch(`${service.url}${path}?resumeToken=${token.slice(1)}x`);
  expect([malformed.status, JSON.stringify(await malformed.json())]).toEqual([
    400,
    expect.stringContaining("INVALID_TOKEN"),
  ]);
  const headers = { accept: "text/event-stream", "last-event-id": `${token.slice(1)}x` };
  const repeated = await fetch(`${service.url}${path}?resumeToken=live`, { headers });
  expect(await repeated.text()).toContain("Last-Event-ID: is not a resume token");
  // The id of an earlier release is the height of a block.
  await readEvents(livePath, "12", ({ event, data }) => event === undefined && data.result !== undefined);
});

test("a token of a block that nobody has is refused after a while, and the process goes on", async () => {
  const state = parseResumeToken(await firstId(livePath));
  const tokens = new ResumeTokens(state?.store ?? Buffer.alloc(8), state?.selection ?? Buffer.alloc(8));
  const ahead = await fetch(`${service.url}${path}?resumeToken=${tokens.at("live", 1n << 40n)}`);
  expect([ahead.status, JSON.stringify(await ahead.json())]).toEqual([503, expect.stringContaining("DATABASE_BEHIND")]);
});

test("a token of a market that this process has not seen yet waits for its announcement", async () => {
  const { store } = parseResumeToken(await firstId(livePath)) ?? { store: Buffer.alloc(8) };
  const next = (past.blocks.at(-1)?.streamSequence ?? 0n) + 1n;
  const token = new ResumeTokens(store, selectionHash(["late"])).at("live", next);
  const opened = firstId(`${path}?marketIds=late&resumeToken=${token}`);
  await sleep(100);
  await past.add({ announce: ["late"] });
  expect(parseResumeToken(await opened)?.streamSequence).toBeGreaterThanOrEqual(next);
});

async function firstId(url: string): Promise<string> {
  let first = "";
  await readEvents(url, "", ({ id }) => {
    first = id ?? "";
    return true;
  });
  return first;
}

test("a replay with a speed sends each block when it is due", async () => {
  // Blocks are a millisecond apart.
  const [from, until] = [10, 30];
  const url = `${path}?fromBlockHeight=${from}&untilBlockHeight=${until}&speed=0.05&everyUpdate=true`;
  const arrivals: { readonly height: number; readonly ms: number }[] = [];
  await readEvents(url, "", ({ data }) => {
    const { block } = fromJson(ReplayMarketsDepthResponseSchema, data.result ?? null);
    arrivals.push({ height: Number(block?.height), ms: performance.now() });
    return false;
  });
  expect(arrivals.map(({ height }) => height)).toEqual(Array.from({ length: until - from }, (_, n) => from + n));
  // The first one may arrive late.
  const tookMs = (arrivals.at(-1)?.ms ?? 0) - (arrivals[0]?.ms ?? 0);
  expect(tookMs).toBeGreaterThan((until - from - 1) * 15);
});

test("a speed is a decimal number of at most 20 decimal places", async () => {
  const statusOf = async (speed: string) => {
    const gone = new AbortController();
    const url = `${service.url}${path}?fromBlockHeight=10&untilBlockHeight=11&speed=${speed}`;
    const { status } = await fetch(url, { signal: gone.signal });
    gone.abort();
    return status;
  };
  const taken = ["3", "1.5", String(1 / 3), String(1 / 30), "0.01000000000000000001", "1000"];
  expect(await Promise.all(taken.map(statusOf))).toEqual(taken.map(() => 200));
  const refused = ["0.010000000000000000001", "0", "1e2", "1001", "-1", "x"];
  expect(await Promise.all(refused.map(statusOf))).toEqual(refused.map(() => 400));
});

test("an address has few replays that read the past at once, and live ones do not count", async () => {
  const slow = `${service.url}${path}?fromBlockHeight=2&untilBlockHeight=40&speed=0.01`;
  const gone = new AbortController();
  const open = () => fetch(slow, { signal: gone.signal });
  const replays = await Promise.all(Array.from({ length: replaysPerAddressMax }, open));
  expect(replays.map(({ status }) => status)).toEqual(replays.map(() => 200));
  const refused = await open();
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "5"]);
  const metrics = await (await fetch(`${service.url}/metrics`)).text();
  expect(metrics).toContain(`marketd_replays_reading ${replaysPerAddressMax}`);
  gone.abort();
  await expect
    .poll(async () => (await (await fetch(`${service.url}/metrics`)).text()).includes("marketd_replays_reading 0"))
    .toBe(true);
  const live = new AbortController();
  for (let n = 0; n <= replaysPerAddressMax; n++) {
    const response = await fetch(`${service.url}${path}?fromBlockHeight=30`, { signal: live.signal });
    expect(response.status).toBe(200);
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; !text.includes('"caughtUp":true'); text += (await reader?.read())?.value ?? "");
  }
  live.abort();
});

test("a replay of a store that is replaced ends at once, in the past too", async () => {
  // Before it answers it is counted already, but may begin with whatever store is there then.
  const response = await fetch(`${service.url}${path}?fromBlockHeight=5&speed=0.01`);
  const text = response.text();
  const reading = async () =>
    /marketd_replays_reading (\d+)/.exec(await (await fetch(`${service.url}/metrics`)).text())?.[1];
  await expect.poll(reading).toBe("1");
  await past.fixture.database.query("UPDATE progress SET store_id = 'another'");
  const { error } = JSON.parse((await text).trim().split("\n").at(-1) ?? "");
  expect(error.details).toContainEqual(expect.objectContaining({ reason: "CHAIN_CHANGED" }));
  expect(await reading()).toBe("0");
});

test("a token is not honoured in the store that replaces that of the token, however late this process learns of it", async () => {
  const { store, streamSequence } = parseResumeToken(await firstId(livePath)) ?? {
    store: Buffer.alloc(8),
    streamSequence: 0n,
  };
  const tokens = new ResumeTokens(store, selectionHash([]));
  const slow = await startTestService(past.fixture.url, { pollIntervalMs: 400 });
  const events = async (url: string, id: string) => {
    const headers = { accept: "text/event-stream", "last-event-id": id };
    return (await fetch(slow.url + url, { headers, signal: AbortSignal.timeout(20_000) })).text();
  };
  await past.fixture.database.query("UPDATE progress SET store_id = 'a third', stream_sequence = stream_sequence + 1");
  await past.fixture.database.query("UPDATE progress SET history_sequence = stream_sequence");
  // Of the past, which is read; of blocks that this process waits for; and of the newest one that it has.
  const resumed = await Promise.all([
    events(path, tokens.at("past", streamSequence - 20n)),
    events(path, tokens.at("live", streamSequence + 1n)),
    events(livePath, tokens.at("live", streamSequence + 1n)),
    events(livePath, tokens.at("live", streamSequence + 1_000n)),
    events(livePath, tokens.at("live", streamSequence)),
  ]);
  for (const text of resumed) expect(text.trim().split("\n\n").at(-1)).toMatch(/^event: error\nid:\n.*CHAIN_CHANGED/s);
  // The stream of before began in the old store.
  expect(resumed.map((text) => text.includes("result"))).toEqual([false, false, false, false, true]);
  await slow.drain();
});
