import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  createMarketdClient,
  exportLedger,
  ledgerEntries,
  messageMaxBytes,
  readDepth,
} from "../../clients/typescript/src/index.js";
import {
  GetLatestMarketDepthResponseSchema,
  GetMarketResponseSchema,
  ListLatestMarketDataResponseSchema,
  ListLedgerEntriesResponseSchema,
  ListMarketsResponseSchema,
  ListTradesResponseSchema,
  ObserveMarketsDepthUpdatesResponseSchema,
  ObserveTradesResponseSchema,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { HttpBodySchema } from "../../gen/google/api/httpbody_pb.js";
import {
  GetMarketDepthAtResponseSchema,
  MarketHistoryState,
  ReplayMarketsDepthResponseSchema,
} from "../../gen/marketd/history/v1/market_history_pb.js";
import type { MarketSchema } from "../../gen/vega/markets_pb.js";
import { type ChangeCount, changeRows } from "../../src/client/change-rows.js";
import { RecentTrades } from "../../src/client/recent-trades.js";
import { openServer } from "../../src/client/server.js";
import { type TradeCount, tradeRows } from "../../src/client/trade-rows.js";
import { firstIdOfBlock } from "../../src/domain/block-position.js";
import { numberCursors } from "../../src/domain/cursor.js";
import { textWidth } from "../../src/terminal/text-width.js";
import { type Ending, startMarketd } from "../support/run-marketd.js";
import { envelope, failure, type Lie, LyingServer, stream, unary } from "./lying-server.js";

/* What the client for TypeScript and the commands do with a server that lies. */

/** What a client takes beyond a limit: buffers of sockets on both sides. */
const slackBytes = 32 * 1024 * 1024;
/** Escape sequences, C1, DEL, directions and line ends. */
const evil = "\u001b]0;x\u0007\u001b[2J\u009b2J\u007f\u202e\u2066\u200f\u2028\r\n";
const controls = /[^\n\P{Cc}]|[\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/u;

let server: LyingServer;
let cwd: string;

beforeEach(async () => {
  server = await LyingServer.start();
  cwd = mkdtempSync(join(tmpdir(), "marketd-lies-"));
});

afterEach(() => {
  server.close();
  rmSync(cwd, { recursive: true, force: true });
});

function run(...args: string[]): Promise<Ending> {
  return startMarketd([...args, "--server", server.url], { cwd }).ending;
}

const announced = Buffer.from([0, 255, 255, 255, 255]);

/** An export without entries, as its summary says. */
const header = Buffer.from("vega_time,quantity,effect\r\n");
const noRows = stream(HttpBodySchema, [{ data: header }], {
  "export-rows": "0",
  "export-sum-of-effects": "0",
  "export-sha256": createHash("sha256").update(header).digest("hex"),
});

it("a trade that has no price is not among the newest ones", async () => {
  const trade = { id: "t", marketId: "m", price: "5", size: 1n, timestamp: 1n };
  const messages = [{ trades: [] }, { trades: [trade] }, { trades: [{ ...trade, price: evil }] }];
  server.lies.set("/ObserveTrades", stream(ObserveTradesResponseSchema, messages));
  server.lies.set(
    "/ListTrades",
    unary(ListTradesResponseSchema, () => ({ trades: { edges: [] } })),
  );
  const recent = new RecentTrades(openServer(server.url), "m");
  const stop = new AbortController();
  const market = { decimalPlaces: 0n, positionDecimalPlaces: 0n };
  const following = recent.follow(() => market, stop.signal);
  await vi.waitFor(() => expect(server.requests).toBeGreaterThan(3), { timeout: 20_000 });
  expect(recent.newest?.map(({ price }) => price)).toEqual(["5"]);
  stop.abort();
  await following;
});

it("the newest trades have each once where blocks have one time, and go on behind what was dropped", async () => {
  const trade = (id: string) => ({ id, marketId: "m", price: "5", size: 1n, timestamp: 9n });
  const edge = (height: bigint, id: string) => {
    return { node: trade(id), cursor: numberCursors("trades").encode(firstIdOfBlock(height)) };
  };
  const opens: Lie = (response, request) => {
    response.setHeader("x-block-height", "5").setHeader("x-block-timestamp", "9");
    stream(ObserveTradesResponseSchema, [{ trades: [] }, { trades: [trade("c")] }])(response, request);
  };
  const dropped = Buffer.from(JSON.stringify({ error: { code: "failed_precondition", message: "dropped" } }));
  let streams = 0;
  server.lies.set("/ObserveTrades", (response, request) => {
    opens(response, request);
    // The first stream ends.
    if (streams++ === 0) response.end(envelope(2, dropped));
  });
  server.lies.set(
    "/ListTrades",
    unary(ListTradesResponseSchema, () => ({ trades: { edges: [edge(6n, "c"), edge(5n, "b"), edge(4n, "a")] } })),
  );
  server.lies.set(
    "/GetMarketDepthAt",
    unary(GetMarketDepthAtResponseSchema, () => ({ marketId: "m" })),
  );
  const recent = new RecentTrades(openServer(server.url), "m");
  const stop = new AbortController();
  const market = { decimalPlaces: 0n, positionDecimalPlaces: 0n };
  const following = recent.follow(() => market, stop.signal);
  const ids = () => recent.newest?.map(({ id }) => id);
  await vi.waitFor(() => expect([streams, ids()]).toEqual([2, ["c", "b", "a"]]), { timeout: 20_000 });
  stop.abort();
  await following;
});

it("a stream of trades is closed where the list of those before it fails", async () => {
  let [opened, open] = [0, 0];
  const opens = stream(ObserveTradesResponseSchema, [{ trades: [] }]);
  server.lies.set("/ObserveTrades", (response, request) => {
    [opened, open] = [opened + 1, open + 1];
    response.once("close", () => {
      open--;
    });
    opens(response, request);
  });
  server.lies.set("/ListTrades", failure(503, "unavailable", "the database cannot be reached; try again"));
  const recent = new RecentTrades(openServer(server.url), "m");
  const stop = new AbortController();
  const following = recent.follow(() => ({ decimalPlaces: 0n, positionDecimalPlaces: 0n }), stop.signal);
  await vi.waitFor(() => expect(opened).toBeGreaterThan(3), { timeout: 20_000 });
  expect(open).toBeLessThan(2);
  stop.abort();
  await following;
});

it("a gap counts once in a file of changes, however often a stream that was resumed tells of it", async () => {
  const [stale, whole] = [MarketHistoryState.STALE, MarketHistoryState.WHOLE].map((state) => ({
    marketId: "m",
    state,
  }));
  const at = (height: bigint) => ({ block: { height, timestamp: height, streamSequence: height }, resumeToken: "t" });
  const unknown = { status: [stale ?? {}], ...at(1n) };
  const book = { marketId: "m", buy: [{ price: "5", volume: 1n, numberOfOrders: 1n }], sequenceNumber: 7n };
  const error = Buffer.from(JSON.stringify({ error: { code: "unavailable", message: "gone" } }));
  let streams = 0;
  server.lies.set("/ReplayMarketsDepth", (response, request) => {
    if (streams++ === 0) {
      stream(ReplayMarketsDepthResponseSchema, [unknown])(response, request);
      response.end(envelope(2, error));
    } else {
      const rest = [unknown, { status: [whole ?? {}], update: [book], ...at(2n) }];
      stream(ReplayMarketsDepthResponseSchema, rest, {})(response, request);
    }
  });
  const count: ChangeCount = { rows: 0, blocks: 0, gaps: 0 };
  const patience = { giveUpMs: 60_000, signal: new AbortController().signal, onFailure: () => {} };
  const subject = { marketId: "m", from: undefined, until: 10n, newest: undefined };
  let csv = "";
  for await (const piece of changeRows(openServer(server.url), subject, count, patience)) csv += piece;
  expect([streams, csv.trimEnd().split("\n").length]).toEqual([2, 2]);
  expect(count).toEqual({ rows: 1, blocks: 1, gaps: 1 });
});

/** Changes of a book of so many levels, of which a file can be made. */
function changesOf(levels: number) {
  const buy = Array.from({ length: levels }, (_, n) => ({ price: String(n + 1), volume: 1n, numberOfOrders: 1n }));
  const status = [{ marketId: "m", state: MarketHistoryState.WHOLE }];
  const block = { height: 9n, timestamp: 9n, streamSequence: 9n };
  return { status, update: [{ marketId: "m", buy, sequenceNumber: 7n }], block, resumeToken: "t" };
}

it("a file of changes waits for a server that lacks the block that another one had", async () => {
  const beyond = Buffer.from(JSON.stringify({ error: { code: "out_of_range", message: "that is beyond" } }));
  let streams = 0;
  server.lies.set("/ReplayMarketsDepth", (response, request) => {
    const isBehind = ++streams < 3;
    stream(
      ReplayMarketsDepthResponseSchema,
      isBehind ? [] : [changesOf(1)],
      isBehind ? undefined : {},
    )(response, request);
    if (isBehind) response.end(envelope(2, beyond));
  });
  const told: string[] = [];
  const patience = {
    giveUpMs: 60_000,
    signal: new AbortController().signal,
    onFailure: (reason: string) => told.push(reason),
  };
  const subject = { marketId: "m", from: undefined, until: 10n, newest: { height: 9n, timeNs: 9n } };
  const count: ChangeCount = { rows: 0, blocks: 0, gaps: 0 };
  for await (const _ of changeRows(openServer(server.url), subject, count, patience));
  expect([streams, told, count.rows]).toEqual([3, ["that is beyond", "that is beyond"], 1]);
  // Nobody had a block so late.
  streams = 0;
  const late = changeRows(openServer(server.url), { ...subject, until: 11n }, count, patience);
  await expect(late.next()).rejects.toThrow("that is beyond");
  expect(streams).toBe(1);
});

it("a file of changes that is given up closes its stream", async () => {
  let isOpen = false;
  server.lies.set("/ReplayMarketsDepth", (response, request) => {
    isOpen = true;
    response.once("close", () => {
      isOpen = false;
    });
    stream(ReplayMarketsDepthResponseSchema, [changesOf(3_000)])(response, request);
  });
  const count: ChangeCount = { rows: 0, blocks: 0, gaps: 0 };
  const patience = { giveUpMs: 60_000, signal: new AbortController().signal, onFailure: () => {} };
  const subject = { marketId: "m", from: undefined, until: 10n, newest: undefined };
  const rows = changeRows(openServer(server.url), subject, count, patience);
  expect((await rows.next()).done).toBe(false);
  expect(isOpen).toBe(true);
  await rows.return(undefined);
  await vi.waitFor(() => expect(isOpen).toBe(false), { timeout: 5_000 });
});

it.each(["SIGINT", "SIGTERM"] as const)("watch --once ends with 130 by %s before there is a book", async (signal) => {
  server.lies.set("/GetMarket", () => {});
  const { child, ending } = startMarketd(["watch", "m", "--once", "--server", server.url], { cwd });
  await vi.waitFor(() => expect(server.requests).toBe(1), { timeout: 20_000 });
  child.kill(signal);
  const { code, out, error } = await ending;
  expect([code, String(out), error]).toEqual([130, "", "marketd: interrupted\n"]);
});

it("a file of trades is not ended by a server that lacks a block that another one had", async () => {
  const [time, newest] = [45n, { height: 5n, timeNs: 50n }];
  const node = { id: "t", marketId: "m", price: "5", size: 1n, timestamp: time };
  const edges = [{ node, cursor: numberCursors("trades").encode(firstIdOfBlock(5n)) }];
  server.lies.set("/ListTrades", (response, request) => {
    const isLate = server.requests > 1;
    response.setHeader("x-block-height", isLate ? "5" : "4").setHeader("x-block-timestamp", isLate ? "50" : "40");
    unary(ListTradesResponseSchema, () => ({ trades: { edges: isLate ? edges : [] } }))(response, request);
  });
  const count: TradeCount = { rows: 0 };
  const failures: string[] = [];
  const onFailure = (reason: string) => failures.push(reason);
  const patience = { giveUpMs: 60_000, signal: new AbortController().signal, onFailure };
  const subject = { marketId: "m", from: undefined, until: 51n, newest };
  const pieces: string[] = [];
  for await (const piece of tradeRows(openServer(server.url), subject, count, patience)) pieces.push(piece);
  expect([count.rows, failures]).toEqual([1, ["the server is behind another one"]]);
  expect(pieces.join("")).toContain("\n1970-01-01T00:00:00.000000045Z,5,0,t,5,1,");
});

describe("what never ends", () => {
  it.each<[what: string, status: number, contentType: string]>([
    ["a response", 200, "application/proto"],
    ["an error", 500, "application/json"],
    ["a page of another server", 200, "text/html"],
  ])("%s of a method, to the library", async (_, status, contentType) => {
    server.lies.set("/ListLedgerEntries", server.endless(status, contentType));
    const entries = ledgerEntries(createMarketdClient(server.url));
    await expect(entries.next()).rejects.toThrow();
    expect(server.endlessBytes).toBeLessThan(messageMaxBytes + slackBytes);
  });

  it.each<[what: string, status: number, contentType: string]>([
    ["a message", 200, "application/connect+proto"],
    ["an error", 500, "application/json"],
  ])("%s of a stream, to the library", async (_, status, contentType) => {
    server.lies.set("/ExportLedgerEntries", server.endless(status, contentType, announced));
    const exported = exportLedger(createMarketdClient(server.url), {}, () => {});
    await expect(exported).rejects.toThrow();
    expect(server.endlessBytes).toBeLessThan(messageMaxBytes + slackBytes);
  });

  it.each([
    ["/ReplayMarketsDepth", 1],
    // An older server has no replays: the first request tells.
    ["/ObserveMarketsDepthUpdates", 2],
  ])("a message of %s ends the reader of depth", async (method, requests) => {
    server.lies.set(method, server.endless(200, "application/connect+proto", announced));
    await expect(readDepth(createMarketdClient(server.url)).next()).rejects.toThrow(
      /^\[resource_exhausted\] message size/,
    );
    expect([server.requests, server.endlessBytes < slackBytes]).toEqual([requests, true]);
  });

  it("readiness, metrics and lists, to status", async () => {
    for (const path of ["/readyz", "/status", "/metrics"])
      server.lies.set(path, server.endless(200, "application/json"));
    server.lies.set("/ListLatestMarketData", server.endless(200, "application/proto"));
    expect((await run("status")).code).toBe(3);
    server.lies.set("/readyz", (response) => response.end('{"status":"ready"}'));
    const { code, out } = await run("status");
    expect([code, String(out)]).toEqual([0, expect.stringMatching(/^markets +not told$/m)]);
    expect(server.endlessBytes).toBeLessThan(messageMaxBytes + 4 * slackBytes);
  });

  it("a message of a stream, to watch", async () => {
    server.lies.set(
      "/GetMarket",
      unary(GetMarketResponseSchema, () => ({ market: { id: "m" } })),
    );
    server.lies.set("/ObserveMarketsDepthUpdates", server.endless(200, "application/connect+proto", announced));
    const { code, error } = await run("watch", "m");
    expect([code, error]).toEqual([1, expect.stringMatching(/^marketd: http\S+: message size .*readMaxBytes.*\n$/)]);
    expect(server.endlessBytes).toBeLessThan(slackBytes);
  });

  it("a list, to export", async () => {
    server.lies.set("/ExportLedgerEntries", noRows);
    const pageInfo = { hasNextPage: true, endCursor: evil };
    server.lies.set(
      "/ListLedgerEntries",
      unary(ListLedgerEntriesResponseSchema, () => ({ ledgerEntries: { pageInfo } })),
    );
    const { code, error } = await run("export", "--party", "p", "--asset", "a", "--out", "file.csv");
    expect([code, error]).toEqual([4, expect.stringContaining("it leads back to the cursor")]);
    expect(error).not.toMatch(controls);
    expect(server.requests).toBeLessThan(20);
    expect(readdirSync(cwd)).not.toContain("file.csv");
  });

  it("a row, to the library", async () => {
    const data = Buffer.alloc(1024 * 1024, "x");
    server.lies.set("/ExportLedgerEntries", stream(HttpBodySchema, [{ data }], {}));
    const exported = exportLedger(createMarketdClient(server.url), {}, () => {});
    await expect(exported).rejects.toThrow(
      "[data_loss] the export arrived not as sent: a row has more than 65536 bytes",
    );
  });
});

describe("what is printed", () => {
  const instrument = { code: evil, name: `${evil}${"名".repeat(5_000)}` };
  const level = (price: string) => ({ price, volume: 2n ** 64n - 1n, numberOfOrders: 1n });

  /** One market, named as a test wants. */
  function serveMarket(market: MessageInitShape<typeof MarketSchema>, price: string): void {
    const id = market.id ?? "";
    server.lies.set(
      "/GetMarket",
      unary(GetMarketResponseSchema, () => ({ market })),
    );
    server.lies.set("/GetLatestMarketData", failure(404, "not_found", evil));
    const book = { marketId: id, buy: [level(price)], sell: [], sequenceNumber: 1n };
    server.lies.set(
      "/GetLatestMarketDepth",
      unary(GetLatestMarketDepthResponseSchema, () => book),
    );
    server.lies.set(
      "/ObserveMarketsDepthUpdates",
      stream(ObserveMarketsDepthUpdatesResponseSchema, [{ update: [book] }]),
    );
  }

  it("names of a market, cut and without control and direction characters", async () => {
    serveMarket({ id: `m${evil}${"i".repeat(10_000)}`, tradableInstrument: { instrument } }, "1");
    const { code, out, error } = await run("watch", "m", "--once");
    expect([code, error]).toEqual([0, ""]);
    expect(String(out)).not.toMatch(controls);
    const [title = ""] = String(out).split("\n");
    expect([textWidth(title) <= 250, title]).toEqual([true, expect.stringMatching(/^\ufffd.*名…? ?\(m\ufffd.*…\)$/)]);
  });

  it.each([["--once"], []])("nothing of decimals that cannot be right, but the market (watch %s)", async (...flags) => {
    for (const places of [{ decimalPlaces: 400_000_000n }, { positionDecimalPlaces: -400_000_000n }]) {
      serveMarket({ id: "gold", ...places }, "1");
      const { code, out, error } = await run("watch", "gold", ...flags);
      expect([code, String(out)]).toEqual([1, ""]);
      expect(error).toMatch(
        /^marketd: http:\S+: market "gold" has -?400000000 decimal places; at most 78 can be right\n$/,
      );
    }
  });

  it("nothing of a price that is none, but a part of it", async () => {
    serveMarket({ id: "gold" }, `${evil}${"9".repeat(10_000)}`);
    const { code, out, error } = await run("watch", "gold", "--once");
    expect([code, String(out)]).toEqual([3, ""]);
    expect(error).toMatch(/^marketd: http:\S+: market "gold" has the price "\ufffd.{20,100}"\n$/);
    expect(error).not.toMatch(controls);
  });

  it.each([
    ["watch", "gold"],
    ["export", "--party", "p", "--asset", "a"],
  ])("the message of an error, of %s", async (...args) => {
    const message = `${evil}${"long ".repeat(100_000)}`;
    const error403 = { code: "permission_denied", message };
    server.lies.set("/GetMarket", failure(403, error403.code, message));
    server.lies.set("/ExportLedgerEntries", (response) => {
      response.writeHead(200, { "content-type": "application/connect+proto" });
      response.end(envelope(2, Buffer.from(JSON.stringify({ error: error403 }))));
    });
    const { code, error } = await run(...args);
    expect([code, error.length < 2_000]).toEqual([1, true]);
    expect(error).toMatch(/^marketd: http:\S+: \ufffd.*long long.*\n$/);
    expect(error).not.toMatch(controls);
  });

  it("the state of a server, on a screen and as JSON", async () => {
    server.lies.set("/readyz", (response) => {
      response.writeHead(200, { "x-block-height": "9e9", "x-block-timestamp": "-1", "marketd-staleness": "Infinity" });
      response.end(JSON.stringify({ status: evil + "x".repeat(100_000) }));
    });
    server.lies.set(
      "/ListLatestMarketData",
      unary(ListLatestMarketDataResponseSchema, () => ({})),
    );
    server.lies.set("/status", (response) => response.end('{"markets":1e99,"staleMarkets":"\\u202e"}'));
    server.lies.set("/metrics", (response) => response.end("marketd_markets_stale \u202e\u001b[2J\n"));
    for (const flags of [[], ["--json"]]) {
      const { code, out, error } = await run("status", ...flags);
      expect(code).toBe(3);
      expect(`${out}${error}`).not.toMatch(controls);
      expect(`${out}${error}`.length).toBeLessThan(1_500);
    }
  });

  it("candidates for a name that several markets have, with their ids", async () => {
    const ids = ["one", `three${evil}`, "two"];
    const edges = ids.map((id) => ({ node: { id, tradableInstrument: { instrument } } }));
    server.lies.set("/GetMarket", failure(404, "not_found", "unknown"));
    server.lies.set(
      "/ListMarkets",
      unary(ListMarketsResponseSchema, () => ({ markets: { edges } })),
    );
    const { code, error } = await run("watch", evil);
    expect(code).toBe(2);
    expect(error).toMatch(
      /^marketd: 3 markets are called "\ufffd.*"; give the id of one: "one" \(.*, "three.*, "two" \(.*\n$/,
    );
    expect(error).not.toMatch(controls);
    expect(server.requests).toBe(2);
  });
});
