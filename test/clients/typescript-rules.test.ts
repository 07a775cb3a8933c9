import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createRouterTransport, type ServiceImpl } from "@connectrpc/connect";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { boundedFetch } from "../../clients/typescript/src/bounded-fetch.js";
import {
  accounts,
  balanceChanges,
  bookAt,
  candles,
  createMarketdClient,
  DepthBook,
  type DepthChange,
  exportLedger,
  isTransient,
  type ListCandleDataRequest,
  type ListLedgerEntriesRequest,
  type ListLedgerEntriesResponseSchema,
  ledgerEntries,
  MarketDepthUpdateSchema,
  MarketHistoryService,
  MarketHistoryState,
  type MarketHistoryStatus,
  MarketSchema,
  readDepth,
  replay,
  retryWaitMs,
  scaledPrice,
  scaledSize,
  TradingDataService,
  trades,
} from "../../clients/typescript/src/index.js";
import { ExportCheck } from "../../clients/typescript/src/ledger-export.js";
import { Sha256 } from "../../clients/typescript/src/sha256.js";
import { ErrorInfoSchema, RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.js";

interface Update {
  readonly previous: string;
  readonly sequence: string;
  readonly buy: readonly string[];
  readonly sell: readonly string[];
  readonly outcome: string;
}

interface ReplayMessage {
  readonly update: readonly Omit<Update, "outcome">[];
  readonly block?: string;
  readonly token?: string;
  /** State, price and size decimals. */
  readonly status?: readonly string[];
  readonly caughtUp?: boolean;
}

interface TradeCall {
  readonly call: string;
  /** The time of the block that the response names, and its height; none: the same number. */
  readonly time: string;
  readonly height?: string;
  /** Of a list, and the cursor of the next page if there is one. */
  readonly trades?: readonly string[];
  readonly next?: string;
  /** Of a stream. */
  readonly messages?: readonly (readonly string[])[];
  /** The code of its error; 0 or none: it ends well. */
  readonly end?: number;
  readonly reason?: string;
}

/** The cases that the clients in every language are tried with. */
interface Cases {
  readonly depthUpdates: readonly {
    readonly name: string;
    readonly updates: readonly Update[];
    readonly book: Pick<Update, "sequence" | "buy" | "sell"> | null;
  }[];
  readonly waits: readonly {
    readonly name: string;
    readonly code: number;
    readonly retryInfoMs?: number;
    readonly retryAfter?: string;
    readonly failures: number;
    readonly random: number;
    readonly waitMs: number;
  }[];
  readonly permanentCodes: readonly number[];
  readonly exports: readonly {
    readonly name: string;
    readonly pieces: readonly string[];
    readonly stated: Readonly<Record<string, string>>;
    readonly error: string | null;
  }[];
  readonly lists: readonly {
    readonly name: string;
    readonly after: string;
    readonly endCursors: readonly string[];
    readonly advances: boolean;
  }[];
  /** An integer, decimal places, and what it stands for: null where the places cannot be right. */
  readonly scales: readonly {
    readonly name: string;
    readonly price: readonly [integer: string, places: number, scaled: string | null];
    readonly size: readonly [integer: string, places: number, scaled: string | null];
  }[];
  /** Streams of MarketHistoryService as a server sends them, and what a reader of them asks for and sees. */
  readonly replays: readonly {
    readonly name: string;
    /** Null: the live stream. */
    readonly past: { readonly from: string; readonly until?: string; readonly speed?: string } | null;
    readonly streams: readonly { readonly messages: readonly ReplayMessage[]; readonly end: number }[];
    readonly requests: readonly string[];
    readonly seen: readonly string[];
  }[];
  /** Balances, and what they are with an asset's decimals: null for an asset that is not announced. */
  readonly amounts: readonly {
    readonly name: string;
    readonly amount: string;
    readonly decimals: string | null;
    readonly scaled?: string | null;
    readonly error?: string;
  }[];
  /** What a server does at each call, and what a reader of trades asks for and sees. A trade is its id, time and price. */
  readonly trades: readonly {
    readonly name: string;
    readonly from: string | null;
    readonly calls: readonly TradeCall[];
    readonly requests: readonly string[];
    readonly seen: readonly string[];
  }[];
  readonly urls: readonly { readonly url: string; readonly valid: boolean }[];
}

const cases: Cases = JSON.parse(readFileSync(new URL("cases.json", import.meta.url), "utf8"));

/** A level is `price volume numberOfOrders`. */
function levels(texts: readonly string[]) {
  return texts.map((text) => {
    const [price = "", volume = "", orders = ""] = text.split(" ");
    return { price, volume: BigInt(volume), numberOfOrders: BigInt(orders) };
  });
}

function depthUpdate(update: Omit<Update, "outcome">, marketId = "m") {
  return create(MarketDepthUpdateSchema, {
    marketId,
    buy: levels(update.buy),
    sell: levels(update.sell),
    sequenceNumber: BigInt(update.sequence),
    previousSequenceNumber: BigInt(update.previous),
  });
}

/** A client of a service in this process: Connect's own router, with these methods. */
function clientOf(service: Partial<ServiceImpl<typeof TradingDataService>>) {
  return createMarketdClient(createRouterTransport(({ service: add }) => void add(TradingDataService, service)));
}

test("a response that does not begin, or not end, ends a call without a limit of its own, and no stream", async () => {
  const silent = createServer(() => {});
  const closing = createTcpServer((socket) => void socket.on("error", () => {}).destroy());
  const half = createServer((_, response) => void response.writeHead(200, { "Content-Length": "9" }).write("half"));
  const urls: string[] = [];
  for (const server of [silent, closing, half]) {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    urls.push(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  }
  const [silentUrl = "", closingUrl = "", halfUrl = ""] = urls;
  const bounded = boundedFetch(1_000, 200);
  const of = (headers: Record<string, string>) => bounded(silentUrl, { method: "POST", body: "", headers });
  await expect(of({ "Content-Type": "application/proto" })).rejects.toThrow("there is no whole response after 0.2 s");
  const started = await bounded(halfUrl, { method: "POST", body: "" });
  await expect(started.arrayBuffer()).rejects.toThrow("there is no whole response after 0.2 s");
  // Node 20 loses it; later ones say at once that the connection ended.
  await expect(bounded(closingUrl, { method: "POST", body: "" })).rejects.toThrow();
  const unlimited = [
    of({ "Content-Type": "application/connect+proto" }),
    of({ "Content-Type": "application/proto", "Connect-Timeout-Ms": "60000" }),
  ].map((response) => response.catch(() => "ended"));
  await expect(Promise.race([...unlimited, sleep(600, "still open")])).resolves.toBe("still open");
  for (const server of [silent, half]) {
    server.closeAllConnections();
    server.close();
  }
  closing.close();
});

describe("decimals", () => {
  test.each(cases.scales)("$name", ({ price, size }) => {
    const places = { decimalPlaces: BigInt(price[1]), positionDecimalPlaces: BigInt(size[1]) };
    const market = create(MarketSchema, { id: "m", ...places });
    for (const [scale, [integer, , scaled]] of [
      [scaledPrice, price],
      [scaledSize, size],
    ] as const) {
      if (scaled !== null) expect(scale(market, integer)).toBe(scaled);
      else
        expect(() => scale(market, integer)).toThrow(
          /^market "m" has -?[0-9]+ decimal places; at most 78 can be right$/,
        );
    }
  });
});

describe("URLs", () => {
  test.each(cases.urls)("$url", ({ url, valid }) => {
    if (valid) expect(createMarketdClient(url)).toBeDefined();
    else expect(() => createMarketdClient(url)).toThrow(/is not the URL of a server: it looks like http:\/\/localhost/);
  });
});

describe("DepthBook", () => {
  test.each(cases.depthUpdates)("$name", ({ updates, book }) => {
    const kept = new DepthBook("m");
    expect(updates.map((update) => kept.apply(depthUpdate(update)))).toEqual(updates.map((update) => update.outcome));
    expect(kept.sequenceNumber).toBe(book === null ? undefined : BigInt(book.sequence));
    expect(kept.buy).toMatchObject(levels(book?.buy ?? []));
    expect(kept.sell).toMatchObject(levels(book?.sell ?? []));
    expect([kept.bestBid, kept.bestOffer]).toEqual([kept.buy[0], kept.sell[0]]);
  });
});

describe("retries", () => {
  test.each(cases.waits)("$name", ({ code, retryInfoMs, retryAfter, failures, random, waitMs }) => {
    const headers = retryAfter === undefined ? {} : { "Retry-After": retryAfter };
    const value = retryInfoMs === undefined ? {} : { retryDelay: durationFromMs(retryInfoMs) };
    const details = retryInfoMs === undefined ? [] : [{ desc: RetryInfoSchema, value }];
    const error = new ConnectError("", code, headers, details);
    expect(retryWaitMs(error, failures, random)).toBe(waitMs);
  });

  test("are made but for mistakes of the caller", () => {
    const codes = Object.values(Code).filter((code) => typeof code === "number");
    const permanent = codes.filter((code) => !isTransient(new ConnectError("", code)));
    expect(permanent).toEqual(cases.permanentCodes);
  });
});

describe("readDepth", () => {
  const whole = depthUpdate({ previous: "0", sequence: "10", buy: ["9 1 1"], sell: [] });
  const next = depthUpdate({ previous: "10", sequence: "20", buy: ["9 2 1"], sell: [] });
  const afterNext = depthUpdate({ previous: "30", sequence: "40", buy: ["9 3 1"], sell: [] });

  /** Reads until the stream was opened as often as there are scripts; each is what one stream sends. */
  async function read(scripts: readonly (() => AsyncGenerator<(typeof whole)[]>)[], silenceMaxMs = 60_000) {
    const seen: string[] = [];
    const stop = new AbortController();
    let opened = 0;
    const client = clientOf({
      async *observeMarketsDepthUpdates() {
        const script = scripts[opened++];
        if (script === undefined) stop.abort();
        else for await (const update of script()) yield { update };
      },
    });
    const onDisconnect = (error: ConnectError) => seen.push(error.rawMessage);
    const onConnect = () => void seen.push("connected");
    const books = new Set<DepthChange["book"]>();
    for await (const { book } of readDepth(client, { signal: stop.signal, silenceMaxMs, onConnect, onDisconnect })) {
      books.add(book);
      seen.push(`${book.sequenceNumber}: ${book.bestBid?.volume}`);
    }
    return { seen, connections: books.size };
  }

  test("starts again with whole books when the stream ends, fails or has a gap", async () => {
    const { seen, connections } = await read([
      async function* () {
        yield [whole];
        yield [next];
      },
      async function* () {
        yield [whole];
        throw new ConnectError("draining", Code.Unavailable);
      },
      async function* () {
        yield [];
        yield [whole];
        yield [afterNext];
      },
    ]);
    const gap = "updates of market m are missing";
    const first = ["connected", "10: 1", "20: 2", "the stream ended"];
    expect(seen).toEqual([...first, "connected", "10: 1", "draining", "connected", "10: 1", gap]);
    expect(connections).toBe(3);
  });

  test("waits for what is read at the start of a stream, and starts again where that failed", async () => {
    const client = clientOf({
      async *observeMarketsDepthUpdates() {
        yield { update: [whole] };
      },
    });
    const seen: string[] = [];
    const stop = new AbortController();
    const onConnect = async () => {
      await sleep(10);
      seen.push("market read");
      if (seen.length === 1) throw new ConnectError("not there", Code.Unavailable);
    };
    const onDisconnect = ({ rawMessage }: ConnectError) => seen.push(rawMessage);
    for await (const _ of readDepth(client, { signal: stop.signal, onConnect, onDisconnect })) {
      seen.push("a change");
      stop.abort();
    }
    expect(seen).toEqual(["market read", "not there", "market read", "a change"]);
  });

  test("ends with what is thrown into it", async () => {
    const client = clientOf({
      async *observeMarketsDepthUpdates() {
        yield { update: [whole] };
        yield { update: [next] };
      },
    });
    const disconnects: string[] = [];
    const changes = readDepth(client, { onDisconnect: ({ rawMessage }) => disconnects.push(rawMessage) });
    await changes.next();
    await expect(changes.throw(new ConnectError("the caller's", Code.Unavailable))).rejects.toThrow("the caller's");
    expect(await changes.next()).toEqual({ done: true, value: undefined });
    expect(disconnects).toEqual([]);
  });

  test("gives up a stream that is silent", async () => {
    const silent = async function* () {
      yield [whole];
      await new Promise(() => {});
    };
    expect((await read([silent], 50)).seen).toEqual(["connected", "10: 1", "no message for 50 ms"]);
  });

  test("starts again when a response ends before its stream does", async () => {
    const headers = { "content-type": "application/connect+proto" };
    // A message that is not complete, and one that is, without the end of the stream.
    const bodies = [Buffer.of(0, 0, 0, 0, 9, 1), Buffer.of(0, 0, 0, 0, 0)];
    const server = createServer((_, response) => response.writeHead(200, headers).end(bodies.shift())).listen(0);
    await once(server, "listening");
    const client = createMarketdClient(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const stop = new AbortController();
    const seen: string[] = [];
    const onDisconnect = ({ rawMessage }: ConnectError) => {
      seen.push(rawMessage);
      if (bodies.length === 0) stop.abort();
    };
    for await (const _ of readDepth(client, { signal: stop.signal, onDisconnect })) seen.push("a change");
    expect(seen).toEqual(["protocol error: incomplete envelope", "missing EndStreamResponse"]);
    server.closeAllConnections();
    server.close();
  });

  test("ends at once with a signal that is aborted when it is told of a failure", async () => {
    const server = createServer((_, response) => response.writeHead(503, { "Retry-After": "60" }).end()).listen(0);
    await once(server, "listening");
    const client = createMarketdClient(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const stop = new AbortController();
    const waits: number[] = [];
    const onDisconnect = (_: ConnectError, waitMs: number) => {
      waits.push(waitMs);
      stop.abort();
    };
    const next = readDepth(client, { signal: stop.signal, onDisconnect }).next();
    expect(await Promise.race([next, sleep(1_000, "still waiting")])).toEqual({ done: true, value: undefined });
    expect(waits).toEqual([expect.closeTo(60_000, -3)]);
    server.closeAllConnections();
    server.close();
  });

  test("ends with an error that trying again does not mend", async () => {
    const client = clientOf({
      async *observeMarketsDepthUpdates() {
        yield await Promise.reject(new ConnectError("unknown market", Code.NotFound));
      },
    });
    await expect(readDepth(client).next()).rejects.toThrow("unknown market");
  });
});

describe("readDepth and replay", () => {
  const stateOf = (text: string) => MarketHistoryState[text as keyof typeof MarketHistoryState];

  function replayMessage({ update, block, token = "", status = [], caughtUp = false }: ReplayMessage) {
    return {
      update: update.map((one) => depthUpdate(one)),
      ...(block !== undefined && { block: { streamSequence: BigInt(block) } }),
      resumeToken: token,
      status: status.map((text) => {
        const [state = "", price = "", size = ""] = text.split(" ");
        const decimals = { decimalPlaces: BigInt(price), positionDecimalPlaces: BigInt(size) };
        return { marketId: "m", state: stateOf(state), ...decimals };
      }),
      caughtUp,
    };
  }

  test.each(cases.replays)("$name", async ({ past, streams, requests, seen: expected }) => {
    const asked: string[] = [];
    const service: Partial<ServiceImpl<typeof MarketHistoryService>> = {
      async *replayMarketsDepth({ fromTimestamp, untilTimestamp, speed, resumeToken }) {
        const { messages, end } = streams[asked.length] ?? { messages: [], end: Code.NotFound };
        const fields = { from: fromTimestamp, until: untilTimestamp, speed, token: resumeToken };
        const given = Object.entries(fields).filter(([, value]) => value !== undefined);
        asked.push(given.map(([name, value]) => `${name}=${value}`).join(" "));
        for (const message of messages) yield replayMessage(message);
        if (end !== 0) throw new ConnectError("as scripted", end);
      },
    };
    const transport = createRouterTransport(({ service: add }) => void add(MarketHistoryService, service));
    const seen: string[] = [];
    const options = {
      onConnect: () => void seen.push("connected"),
      onDisconnect: ({ rawMessage }: ConnectError) => seen.push(rawMessage),
      onStatus: ({ state }: MarketHistoryStatus) => seen.push(MarketHistoryState[state]),
    };
    const client = createMarketdClient(transport);
    const { from, until, speed } = past ?? {};
    const span = { ...(from && { from: BigInt(from) }), ...(until && { until: BigInt(until) }) };
    const changes =
      past === null
        ? readDepth(client, options)
        : replay(client, { ...options, ...span, ...(speed && { speed: Number(speed) }) });
    const books = new Set<DepthChange["book"]>();
    let wholeBooks = 0;
    try {
      for await (const { book, update, block, scale, isLive } of changes) {
        books.add(book);
        if (update.previousSequenceNumber === 0n) wholeBooks++;
        expect(scale?.positionDecimalPlaces).toBe(3n);
        const place = `${book.sequenceNumber}: ${book.bestBid?.volume} at ${block?.streamSequence}`;
        seen.push(isLive ? `${place} live` : place);
      }
    } catch (error) {
      seen.push((error as ConnectError).rawMessage);
    }
    expect(seen).toEqual(expected);
    expect(asked).toEqual(requests);
    expect(books.size).toBe(wholeBooks);
  });
});

test("bookAt asks for a time, and scales by the decimals of that time", async () => {
  const asked: bigint[] = [];
  const service: Partial<ServiceImpl<typeof MarketHistoryService>> = {
    getMarketDepthAt({ marketId, timestamp = 0n }) {
      asked.push(timestamp);
      const scale = { decimalPlaces: 2n, positionDecimalPlaces: -1n };
      return { marketId, buy: levels(["9 1 1"]), sequenceNumber: 7n, block: { height: 3n }, ...scale };
    },
  };
  const client = createMarketdClient(
    createRouterTransport(({ service: add }) => void add(MarketHistoryService, service)),
  );
  const { book, block, scale } = await bookAt(client, "m", new Date(1_700_000_000_123));
  await bookAt(client, "m", 1_700_000_000_123_456_789n);
  expect(asked).toEqual([1_700_000_000_123_000_000n, 1_700_000_000_123_456_789n]);
  expect([book.sequenceNumber, block?.height]).toEqual([7n, 3n]);
  expect([scaledPrice(scale, book.bestBid?.price ?? ""), scaledSize(scale, 1n)]).toEqual(["0.09", "10"]);
});

describe("ledgerEntries", () => {
  test.each(cases.lists)("$name", async ({ after, endCursors, advances }) => {
    let requests = 0;
    const client = clientOf({
      listLedgerEntries: () => page(["x"], requests < endCursors.length, endCursors[requests++] ?? "end"),
    });
    const read = async () => {
      let entries = 0;
      for await (const _ of ledgerEntries(client, { after })) entries++;
      return entries;
    };
    if (advances) expect(await read()).toBe(endCursors.length + 1);
    else
      await expect(read()).rejects.toThrow(/^\[data_loss\] the list does not advance: it leads back to the cursor "/);
    expect(requests).toBeLessThanOrEqual(endCursors.length + 1);
  });

  test("goes on over short and empty pages, and stops at the last", async () => {
    const requests: ListLedgerEntriesRequest[] = [];
    const pages: MessageInitShape<typeof ListLedgerEntriesResponseSchema>[] = [
      page(["a", "b"], true, "b"),
      page([], true, "m"),
      page(["z"], false, "z"),
    ];
    const client = clientOf({
      listLedgerEntries(request) {
        requests.push(request);
        return pages[requests.length - 1] ?? {};
      },
    });
    const cursors = [];
    const query = { filter: { closeOnAccountFilters: true }, newestFirst: false, pageSize: 2, after: "start" };
    for await (const { node, cursor } of ledgerEntries(client, query)) cursors.push(`${cursor} ${node.quantity}`);
    expect(cursors).toEqual(["a 1", "b 1", "z 1"]);
    expect(requests.map(({ pagination }) => pagination?.after)).toEqual(["start", "b", "m"]);
    const same = { filter: { closeOnAccountFilters: true }, pagination: { newestFirst: false, first: 2 } };
    expect(requests).toMatchObject([same, same, same]);
  });

  function page(cursors: readonly string[], hasNextPage: boolean, endCursor: string) {
    const edges = cursors.map((cursor) => ({ cursor, node: { quantity: "1" } }));
    return { ledgerEntries: { edges, pageInfo: { hasNextPage, endCursor } } };
  }
});

describe("trades", () => {
  function tradesOf(texts: readonly string[]) {
    return texts.map((text) => {
      const [id = "", timestamp = "", price = ""] = text.split(" ");
      return { id, timestamp: BigInt(timestamp), price };
    });
  }

  test.each(cases.trades)("$name", async ({ from, calls, requests, seen: expected }) => {
    const asked: string[] = [];
    const next = (request: string, headers: Headers): TradeCall => {
      const call = calls[asked.length];
      asked.push(request);
      if (call === undefined || !request.startsWith(call.call)) throw new ConnectError("out of script", Code.NotFound);
      headers.set("X-Block-Timestamp", call.time);
      headers.set("X-Block-Height", call.height ?? call.time);
      return call;
    };
    const failAs = ({ end = 0, reason = "" }: TradeCall) => {
      const details = [{ desc: ErrorInfoSchema, value: { reason } }];
      if (end !== 0) throw new ConnectError("as scripted", end, undefined, details);
    };
    const client = clientOf({
      listTrades({ marketIds, dateRange, pagination }, { responseHeader }) {
        expect([marketIds, pagination?.newestFirst]).toEqual([["m"], false]);
        const fields = { from: dateRange?.startTimestamp, after: pagination?.after };
        const given = Object.entries(fields).filter(([, value]) => value !== undefined);
        const call = next(["list", ...given.map(([name, value]) => `${name}=${value}`)].join(" "), responseHeader);
        failAs(call);
        const edges = tradesOf(call.trades ?? []).map((node, at) => ({ node, cursor: `${node.id}${at}` }));
        return { trades: { edges, pageInfo: { hasNextPage: call.next !== undefined, endCursor: call.next ?? "" } } };
      },
      getLastTrade({ marketId }, { responseHeader }) {
        expect(marketId).toBe("m");
        const call = next("last", responseHeader);
        failAs(call);
        const [trade] = tradesOf(call.trades ?? []);
        return { ...(trade && { trade }) };
      },
      async *observeTrades({ marketIds }, { responseHeader }) {
        expect(marketIds).toEqual(["m"]);
        const call = next("stream", responseHeader);
        for (const message of call.messages ?? []) yield { trades: tradesOf(message) };
        failAs(call);
      },
    });
    const seen: string[] = [];
    const onDisconnect = ({ rawMessage }: ConnectError) => seen.push(rawMessage);
    try {
      for await (const trade of trades(client, "m", from === null ? undefined : BigInt(from), { onDisconnect })) {
        seen.push(trade.id);
        trade.price = "of the caller";
      }
    } catch (error) {
      seen.push((error as ConnectError).rawMessage);
    }
    expect(seen).toEqual(expected);
    expect(asked).toEqual(requests);
  });

  test("end with the signal", async () => {
    const stop = new AbortController();
    const client = clientOf({
      listTrades: () => ({ trades: { edges: tradesOf(["a 1"]).map((node) => ({ node })) } }),
      async *observeTrades(_, { signal }) {
        yield {};
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
      },
    });
    for await (const { id } of trades(client, "m", 0n, { signal: stop.signal })) {
      expect(id).toBe("a");
      setTimeout(() => stop.abort(), 50);
    }
  });
});

test("candles are read oldest first, over pages, and up to a time", async () => {
  const asked: ListCandleDataRequest[] = [];
  const client = clientOf({
    listCandleData(request) {
      asked.push(request);
      const more = asked.length < 3;
      // The second page is empty.
      const edges = asked.length === 2 ? [] : [{ node: { open: `${asked.length}` } }];
      return { candles: { edges, pageInfo: { hasNextPage: more, endCursor: `c${asked.length}` } } };
    },
  });
  const seen = [];
  for await (const { open } of candles(client, "m", "15 minutes", new Date(1), 5_000_000n, { pageSize: 7 })) {
    seen.push(open);
  }
  expect(seen).toEqual(["1", "3"]);
  const range = { candleId: "trades_candle_15_minutes_m", fromTimestamp: 1_000_000n, toTimestamp: 5_000_000n };
  const page = { newestFirst: false, first: 7 };
  const after = asked.map(({ pagination }) => pagination?.after);
  expect(after).toEqual([undefined, "c1", "c2"]);
  for (const request of asked) expect(request).toMatchObject({ ...range, pagination: page });
});

describe("balances", () => {
  test.each(cases.amounts)("$name", async ({ amount, decimals, scaled = null, error }) => {
    let assets = 0;
    const client = clientOf({
      listAccounts: () => {
        const node = { asset: "a", balance: amount };
        return { accounts: { edges: [{ node }, { node }] } };
      },
      listBalanceChanges: () => ({ balances: { edges: [{ node: { assetId: "a", balance: amount } }] } }),
      getAsset({ assetId }) {
        assets++;
        if (decimals === null) throw new ConnectError("unknown", Code.NotFound);
        return { asset: { id: assetId, details: { decimals: BigInt(decimals) } } };
      },
    });
    const read = async (list: typeof accounts | typeof balanceChanges) => {
      const seen = [];
      for await (const { asset, balance } of list(client)) seen.push([asset?.id, balance]);
      return seen;
    };
    if (error !== undefined) {
      await expect(read(accounts)).rejects.toThrow(error);
      await expect(read(balanceChanges)).rejects.toThrow(error);
      return;
    }
    const expected = scaled === null ? [undefined, undefined] : ["a", scaled];
    expect(await read(accounts)).toEqual([expected, expected]);
    expect(assets).toBe(1);
    expect(await read(balanceChanges)).toEqual([expected]);
  });
});

describe("exports", () => {
  test.each(cases.exports)("$name", ({ pieces, stated, error }) => {
    const check = new ExportCheck();
    const verify = () => {
      for (const piece of pieces) check.update(new TextEncoder().encode(piece));
      return check.finish(new Headers(stated));
    };
    if (error !== null) {
      expect(verify).toThrow(error);
      expect(verify).toThrow(/^[^\p{C}]{1,200}$/u);
    } else expect(verify()).toMatchObject({ sha256: stated["export-sha256"] });
  });

  test("hands over the file piece by piece, and the summary", async () => {
    const file = "vega_time,quantity,effect\r\nt,1,-1\r\n";
    const client = clientOf({
      async *exportLedgerEntries(_, { responseTrailer }) {
        for (const piece of [file.slice(0, 5), file.slice(5), ""]) yield { data: new TextEncoder().encode(piece) };
        responseTrailer.set("export-rows", "1");
        responseTrailer.set("export-sum-of-effects", "-1");
        responseTrailer.set("export-sha256", createHash("sha256").update(file).digest("hex"));
      },
    });
    const written: Uint8Array[] = [];
    const summary = await exportLedger(client, { partyId: "p", assetId: "a" }, (csv) => written.push(csv));
    expect(Buffer.concat(written).toString()).toBe(file);
    expect(summary).toMatchObject({ rows: 1n, sumOfEffects: -1n });
  });

  test("ends its call where a piece cannot be written", async () => {
    let ended = false;
    const client = clientOf({
      async *exportLedgerEntries(_, { signal }) {
        signal.addEventListener("abort", () => {
          ended = true;
        });
        for (;;) {
          yield { data: Buffer.from("a,b\r\n") };
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
      },
    });
    const full = exportLedger(client, { partyId: "p", assetId: "a" }, () =>
      Promise.reject(new Error("the disk is full")),
    );
    await expect(full).rejects.toThrow("the disk is full");
    await expect.poll(() => ended).toBe(true);
  });

  test("the hash is SHA-256, whatever the pieces", () => {
    const pieces = fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 8 });
    fc.assert(
      fc.property(pieces, (parts) => {
        const hash = new Sha256();
        for (const part of parts) hash.update(part);
        expect(hash.digest()).toBe(createHash("sha256").update(Buffer.concat(parts)).digest("hex"));
      }),
    );
  });
});
