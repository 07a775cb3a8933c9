import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type DescMessage, fromJson, type JsonValue } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, type TestContext, test, vi } from "vitest";
import {
  type Candle,
  type GetLatestMarketDepthResponse,
  type GetMarketResponse,
  type ListAccountsResponse,
  type ListAssetsResponse,
  type ListBalanceChangesResponse,
  type ListCandleDataResponse,
  type ListLatestMarketDataResponse,
  type ListLedgerEntriesResponse,
  type ListMarketsResponse,
  type ListTradesResponse,
  ListTradesResponseSchema,
  ObserveCandleDataResponseSchema,
  ObserveTradesResponseSchema,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { ListMarketDepthChangesResponseSchema } from "../../gen/marketd/history/v1/market_history_pb.js";
import type { MarketDepthUpdate, Trade } from "../../gen/vega/vega_pb.js";
import { DepthBook, type DepthLevel } from "../../src/domain/depth-book.js";
import { comparePrices } from "../../src/domain/price.js";
import { anyRegistry } from "../../src/encoding/json-encoder.js";
import { networkDefaults, simulate } from "../../src/simulator/network.js";
import { launchChromium, serveScript } from "../e2e/browser-launch.js";
import { ServiceProcess } from "../e2e/service-process.js";
import { killGroup } from "../embedded/processes.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { loadRecording } from "../support/load-recording.js";
import { type Known, messagesMax, operationsOn, outcomesOf } from "../support/operations.js";
import { isOffline, partnerProgram } from "../support/partners.js";
import { methodOf, type Outcome, outcomeOf } from "../support/protocol-client.js";
import { GrpcProtocolClient, HttpProtocolClient } from "../support/protocol-clients.js";
import { notThorough, thorough } from "../support/tries.js";
import type { Findings } from "./browser-script.js";
import {
  type Command,
  casesPath,
  compiled,
  type Example,
  examplesOf,
  type Installed,
  java,
  type Language,
  languages,
  run,
} from "./languages.js";

/*
 * Each client as its users get it, installed into a folder of its own, and its examples against a real server. All of
 * them do the same, so all are held to the same responses, read here over plain HTTP.
 */

const installMaxMs = 300_000;
const firstBlocks = 150;
const network = { ...networkDefaults, parties: 10, entriesPerBlock: 60, blocks: 400 };

const examplesOfAll = ["best-prices", "live-order-book", "ledger-history", "verified-export"] as const;
const withoutShell = ["backtest", "trades", "candles", "balances"] as const;
const backtest: Example = "backtest";
const backtestPatience = { timeout: 40_000 };
/** Until the next block of a market that strategies trade on. */
const liveBlockMs = 200;

/** What the examples ask for in one request. */
const examplePageSize = 500;

/** JSON of a message: what is a bigint in code is text. */
type Json<T> = T extends bigint
  ? string
  : T extends (infer E)[]
    ? Json<E>[]
    : T extends object
      ? { [K in keyof T]: Json<T[K]> }
      : T;

/** Why a language is skipped, by its name. */
const skipped = new Map<string, string>();
/** Ends when a language is installed, or skipped: nobody waits for another's. */
const installed = new Map<string, Promise<void>>();
const running: ChildProcess[] = [];
let folder = "";
let recording: Uint8Array[];
let databaseUrl: string;
let service: ServiceProcess;
/** Blocks that are in the database. */
let loaded = 0;

async function read<T>(path: string, query: Record<string, string> = {}): Promise<Json<T>> {
  const response = await fetch(`${service.url}${path}?${new URLSearchParams(query)}`);
  expect(response.status).toBe(200);
  return (await response.json()) as Json<T>;
}

async function load(blocks: number): Promise<void> {
  await loadRecording(databaseUrl, Buffer.concat(recording.slice(0, blocks)));
  loaded = blocks;
}

async function install(language: Installed): Promise<void> {
  const missing = language.needs.find((name) => partnerProgram(name) === undefined);
  if (missing !== undefined) return skip(language, `${missing} is not on this machine`);
  if (compiled.includes(language) && !thorough) return skip(language, notThorough);
  try {
    await mkdir(projectFolder(language));
    await language.install(projectFolder(language));
  } catch (error) {
    if (!isOffline(error)) throw error;
    skip(language, "its packages cannot be reached");
  }
}

function skip(language: Installed, reason: string): void {
  skipped.set(language.name, reason);
  process.stderr.write(`skipped: the client for ${language.name} (${reason})\n`);
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "marketd-clients-"));
  for (const language of [...languages, java]) {
    const installing = install(language);
    installing.catch(() => {}); // The language's tests fail with it.
    installed.set(language.name, installing);
  }
  recording = [...simulate(network)];
  databaseUrl = newDatabaseUrl().url;
  service = new ServiceProcess(databaseUrl, await freePort());
  await load(firstBlocks);
  await service.start();
});

afterAll(async () => {
  await Promise.allSettled(installed.values());
  for (const child of running) killGroup(child);
  await service.kill();
  await rm(folder, { recursive: true, force: true });
});

function projectFolder(language: Installed): string {
  return join(folder, language.name);
}

async function ready(language: Installed, context: TestContext): Promise<void> {
  await installed.get(language.name);
  context.skip(skipped.has(language.name), skipped.get(language.name));
}

/** What an example prints when it has ended. */
function printed(language: Language, example: Example, ...args: string[]): Promise<string> {
  const command: Command = [...language.example(projectFolder(language), example), ...args];
  return run(command, projectFolder(language), { MARKETD: service.url });
}

/** Starts a program that does not end by itself; gives its lines as they come. */
function start([program, ...args]: Command): string[] {
  const env = { ...process.env, MARKETD: service.url };
  // A group of its own, because a shell script starts others.
  const child = spawn(program, args, { cwd: folder, env, stdio: ["ignore", "pipe", "ignore"], detached: true });
  running.push(child);
  const lines: string[] = [];
  let rest = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    const parts = (rest + text).split("\n");
    rest = parts.pop() ?? "";
    lines.push(...parts);
  });
  return lines;
}

async function firstMarket(): Promise<string> {
  const { marketsData } = await read<ListLatestMarketDataResponse>("/markets/data");
  return marketsData[0]?.market ?? "";
}

async function depthOf(market: string): Promise<Json<GetLatestMarketDepthResponse>> {
  return read<GetLatestMarketDepthResponse>(`/api/v2/market/depth/${market}/latest`);
}

async function page(query: Record<string, string>): Promise<Json<ListLedgerEntriesResponse>> {
  return read<ListLedgerEntriesResponse>("/api/v2/ledgerentry/history", query);
}

/** A decimal number of an integer whose last `places` digits are decimals: 1 or more. */
function scaled(integer = "", places = ""): string {
  if (places === "0") return integer;
  return integer.padStart(Number(places) + 1, "0").replace(new RegExp(`(?=.{${places}}$)`), ".");
}

/** The market that traded last, with its decimals. */
async function busiestMarket() {
  const { markets } = await read<ListMarketsResponse>("/api/v2/markets");
  const { trades } = await read<ListTradesResponse>("/api/v2/trades");
  const trading = trades?.edges[0]?.node?.marketId;
  const market = markets?.edges.find(({ node }) => node?.id === trading)?.node;
  if (market === undefined) throw new Error("no market has traded");
  return market;
}

/** The lines of the example of trades: those of a market that are kept. */
async function tradeLines({ id, decimalPlaces, positionDecimalPlaces }: Awaited<ReturnType<typeof busiestMarket>>) {
  const query = { marketIds: id, "pagination.newestFirst": "false", "pagination.first": "5000" };
  const { trades } = await read<ListTradesResponse>("/api/v2/trades", query);
  expect(trades?.pageInfo?.hasNextPage).toBe(false);
  return (trades?.edges ?? []).flatMap(({ node }) => {
    if (node === undefined) return [];
    const numbers = `${scaled(node.price, decimalPlaces)} ${scaled(node.size, positionDecimalPlaces)}`;
    return [`${node.timestamp} ${numbers} ${node.id}`];
  });
}

describe.each(languages)("$name", { timeout: installMaxMs }, (language) => {
  test("best prices", async (context) => {
    await ready(language, context);
    const lines = (await printed(language, "best-prices")).trim().split("\n");
    const id = await firstMarket();
    const { market } = await read<GetMarketResponse>(`/api/v2/market/${id}`);
    const { buy, sell } = await depthOf(id);
    const text = (level?: { price: string; volume: string }) =>
      `${scaled(level?.price, market?.decimalPlaces)} ${scaled(level?.volume, market?.positionDecimalPlaces)}`;
    expect(lines).toEqual([
      market?.tradableInstrument?.instrument?.name,
      `bid ${text(buy[0])}`,
      `offer ${text(sell[0])}`,
    ]);
    expect(Number(market?.decimalPlaces)).toBeGreaterThan(0);
    expect(Number(market?.positionDecimalPlaces)).toBeGreaterThan(0);
  });

  test("ledger history", async (context) => {
    await ready(language, context);
    const { party, entries } = await busiestParty();
    const lines = (await printed(language, "ledger-history", party)).trim().split("\n");
    expect(lines.at(-1)).toBe(`${entries.length} entries`);
    const totals = new Map<string, bigint>();
    for (const { assetId = "", quantity } of entries) {
      totals.set(assetId, (totals.get(assetId) ?? 0n) + BigInt(quantity));
    }
    const expected = [...totals].map(([asset, total]) => `in all ${total} of ${asset}`);
    expect(lines.slice(entries.length, -1).sort()).toEqual(expected.sort());
    expect(lines.slice(0, entries.length).map((line) => line.split(" ")[1])).toEqual(
      entries.map((one) => one.quantity),
    );
  });

  test("verified export", async (context) => {
    await ready(language, context);
    const { party, entries } = await busiestParty();
    const asset = entries[0]?.assetId ?? "";
    const file = join(projectFolder(language), "ledger.csv");
    const lines = (await printed(language, "verified-export", party, asset, file)).trim().split("\n");
    const csv = readFileSync(file);
    expect(lines[1]).toBe(`SHA-256 ${createHash("sha256").update(csv).digest("hex")}`);
    const effects = csv
      .toString()
      .trim()
      .split("\r\n")
      .slice(1)
      .map((row) => BigInt(row.split(",")[2] ?? ""));
    expect(lines[0]).toBe(`${effects.length} rows, sum of effects ${effects.reduce((a, b) => a + b, 0n)}`);
    expect(effects.length).toBeGreaterThan(0);
  });

  test.runIf(language.readme)("candles", async (context) => {
    await ready(language, context);
    const { id, decimalPlaces, positionDecimalPlaces } = await busiestMarket();
    const lines = (await printed(language, "candles", id)).trim().split("\n");
    const query = { candleId: `trades_candle_1_minute_${id}`, "pagination.newestFirst": "false" };
    const { candles } = await read<ListCandleDataResponse>("/api/v2/candle", query);
    const expected = (candles?.edges ?? []).flatMap(({ node }) => {
      if (node === undefined) return [];
      const prices = [node.open, node.high, node.low, node.close].map((price) => scaled(price, decimalPlaces));
      return [[...prices, scaled(node.volume, positionDecimalPlaces)].join(" ")];
    });
    expect(expected.length).toBeGreaterThan(1);
    expect(lines.map((line) => line.slice(line.indexOf(" ") + 1))).toEqual(expected);
    const begin = lines.map((line) => BigInt(Date.parse(line.slice(0, line.indexOf(" ")))) * 1_000_000n);
    expect(begin.map(String)).toEqual(candles?.edges.map(({ node }) => node?.start));
    // All of them are older.
    expect((await printed(language, "candles", id, "60")).trim()).toBe("");
  });

  test.runIf(language.readme)("balances", async (context) => {
    await ready(language, context);
    const { party } = await busiestParty();
    const query = { "filter.partyIds": party };
    const { assets } = await read<ListAssetsResponse>("/api/v2/assets");
    const details = new Map(assets?.edges.map(({ node }) => [node?.id ?? "", node?.details]));
    const text = (asset = "", balance = "", type = "") => {
      const { decimals, symbol } = details.get(asset) ?? {};
      const amount = decimals === undefined ? `${balance} ${asset}` : `${scaled(balance, decimals)} ${symbol}`;
      return `${amount} ${type.replace("ACCOUNT_TYPE_", "")}`;
    };
    const { accounts } = await read<ListAccountsResponse>("/api/v2/accounts", query);
    const oldest = { ...query, "pagination.newestFirst": "false", "pagination.first": "5000" };
    const { balances } = await read<ListBalanceChangesResponse>("/api/v2/balance/changes", oldest);
    const held = accounts?.edges.map(({ node }) => `holds ${text(node?.asset, node?.balance, String(node?.type))}`);
    const changes = balances?.edges.map(({ node }) => {
      return `${node?.timestamp} ${text(node?.assetId, node?.balance, String(node?.accountType))}`;
    });
    expect(held?.length).toBeGreaterThan(1);
    // More than two pages of the examples.
    expect(changes?.length).toBeGreaterThan(200);
    const lines = (await printed(language, "balances", party)).trim().split("\n");
    expect(lines.map((line) => line.replace("ACCOUNT_TYPE_", ""))).toEqual([...(held ?? []), ...(changes ?? [])]);
  });

  test.runIf(language.hasBookFile)("the file of docs/depth-stream.md", async (context) => {
    await ready(language, context);
    const market = await firstMarket();
    const { buy, sell } = await depthOf(market);
    const url = `${service.url}/api/v2/stream/markets/depth/updates?marketIds=${market}`;
    const lines = start([...language.example(projectFolder(language), "keep-a-book"), url]);
    await vi.waitFor(() => expect(lines).not.toEqual([]), { timeout: 20_000 });
    expect(lines[0]?.replace(/ [0-9]+:/, ":")).toBe(`${market}: ${buy[0]?.price} / ${sell[0]?.price}`);
  });

  test.runIf(language.checkTypes)(
    "its examples pass strict checks of types, and a wrong call does not",
    async (context) => {
      await ready(language, context);
      const { checkTypes, example } = language;
      if (checkTypes === undefined) return;
      const paths = [...examplesOfAll, ...withoutShell].map(
        (name) => example(projectFolder(language), name).at(-1) ?? "",
      );
      const wrong = join(projectFolder(language), "wrong.py");
      writeFileSync(wrong, 'from marketd_client import Client\nClient("http://localhost").GetMarket("gold")\n');
      try {
        await checkTypes(projectFolder(language), paths);
      } catch (error) {
        if (isOffline(error)) return context.skip("mypy cannot be reached");
        throw error;
      }
      const failure = await checkTypes(projectFolder(language), [wrong]).catch((error) => String(error.stdout));
      expect(failure).toMatch(/wrong\.py:2: error: .*"str"; expected "GetMarketRequest"/);
    },
  );

  test.runIf(language.rules)("its own tests of the rules", async (context) => {
    await ready(language, context);
    if (language.rules !== undefined) await run(language.rules(projectFolder(language)), folder, { CASES: casesPath });
  });

  test.runIf(language.readme)("the examples of its README", async (context) => {
    await ready(language, context);
    const [books, tape, ...others] = await examplesOf(language.readme ?? "");
    expect(others).toEqual([]);
    const market = await firstMarket();
    const { buy, sell } = await depthOf(market);
    const bookLines = await paste(language, books);
    const line = `${market} ${buy[0]?.price} ${sell[0]?.price}`;
    await vi.waitFor(() => expect(bookLines).toContain(line), { timeout: 20_000 });
    const { markets } = await read<ListMarketsResponse>("/api/v2/markets");
    const first = markets?.edges[0]?.node;
    if (first === undefined) throw new Error("there is no market");
    const made = await tradeLines(first);
    expect(made.length).toBeGreaterThan(10);
    const tapeLines = await paste(language, tape);
    const expected = made.map((trade) => `${first.id} ${trade.split(" ").slice(0, 2).join(" ")}`);
    await vi.waitFor(() => expect(tapeLines).toEqual(expected), { timeout: 20_000 });
  });

  async function paste({ paste }: Language, code = ""): Promise<string[]> {
    if (paste === undefined) throw new Error("it has no way to run an example");
    return start(await paste(projectFolder(language), code.replace("http://127.0.0.1:8080", service.url)));
  }
});

const callers = [...languages, java].filter((language) => language.calls !== undefined);

describe.each(callers)("$name", { timeout: installMaxMs }, (language) => {
  test("all operations by gRPC's own library, with code generated from the definitions", async (context) => {
    await ready(language, context);
    const operations = operationsOn(await known());
    const calls = operations.map(({ method, request }) => {
      return { method: methodOf(method).name, request, messagesMax: messagesMax(method) };
    });
    const lines = await callAll(language, calls);
    const [grpc, plain] = [new GrpcProtocolClient(service.url), new HttpProtocolClient(service.url)];
    for (const [index, operation] of operations.entries()) {
      const { output } = methodOf(operation.method);
      const outcomes = (lines[index] ?? []).map((outcome) => {
        if ("error" in outcome) return outcome;
        return outcomeOf(output, fromJson(output, outcome.reply, { registry: anyRegistry }));
      });
      // Messages of errors name fields as the protocol does.
      const answered = await outcomesOf(plain, operation);
      const isRefused = answered.some((outcome) => "error" in outcome);
      const expected = isRefused ? await outcomesOf(grpc, operation) : answered;
      // These libraries give the details of an error in packages of their own.
      const seen = expected.map((outcome) => withoutReason(outcome));
      expect(outcomes, JSON.stringify(operation)).toEqual(seen);
    }
    grpc.close();
  });

  test("trades and candles by gRPC's own library, while blocks are loaded", async (context) => {
    await ready(language, context);
    const { id } = await busiestMarket();
    const trades = await followed(language, ObserveTradesResponseSchema, "ObserveTrades", { marketIds: [id] });
    const streamed = trades.flatMap((message) => message.trades);
    const query = { marketIds: id, "pagination.newestFirst": "false", "pagination.first": "5000" };
    const listed = fromJson(ListTradesResponseSchema, (await read("/api/v2/trades", query)) as JsonValue).trades;
    const all = listed?.edges.flatMap(({ node }) => node ?? []) ?? [];
    expect(streamed.length).toBeGreaterThan(2);
    const first = all.findIndex((trade) => trade.id === streamed[0]?.id);
    expect(streamed).toEqual(all.slice(first, first + streamed.length));
    const candleId = `trades_candle_1_minute_${id}`;
    const candles = await followed(language, ObserveCandleDataResponseSchema, "ObserveCandleData", { candleId });
    const { trades: after } = fromJson(ListTradesResponseSchema, (await read("/api/v2/trades", query)) as JsonValue);
    const known = after?.edges.flatMap(({ node }) => node ?? []) ?? [];
    const seen = candles.flatMap(({ candle }) => candle ?? []);
    expect(seen.length).toBeGreaterThan(2);
    for (const candle of seen) expect(candle).toMatchObject(foldOf(known, candle));
  });

  /** What each of some calls gave, by their order. */
  async function callAll(language: Installed, calls: readonly object[]): Promise<Outcome[][]> {
    const file = join(projectFolder(language), "calls.json");
    writeFileSync(file, JSON.stringify(calls));
    const [program = "", ...args] = language.calls?.(projectFolder(language)) ?? [];
    const { host } = new URL(service.url);
    const printed = await run([program, ...args, host, file], projectFolder(language));
    const lines = printed.trim().split("\n");
    expect(lines).toHaveLength(calls.length);
    return lines.map((line) => JSON.parse(line) as Outcome[]);
  }

  /** The first messages of a stream, while a block after the other is loaded. */
  async function followed<D extends DescMessage>(language: Installed, desc: D, method: string, request: object) {
    let isDone = false;
    const calling = callAll(language, [{ method, request, messagesMax: 4 }]).finally(() => {
      isDone = true;
    });
    while (!isDone) {
      expect(loaded).toBeLessThan(network.blocks);
      await load(loaded + 1);
      await sleep(liveBlockMs);
    }
    const [outcomes = []] = await calling;
    expect(outcomes).toHaveLength(4);
    return outcomes.map((outcome) => fromJson(desc, "reply" in outcome ? outcome.reply : null));
  }

  /** The candle of the trades in its period up to its last one. */
  function foldOf(trades: readonly Trade[], { start, lastUpdate }: Candle): Partial<Candle> {
    const own = trades.filter(({ timestamp }) => timestamp >= start && timestamp <= lastUpdate);
    const prices = own.map(({ price }) => price).sort(comparePrices);
    return {
      open: own[0]?.price ?? "",
      close: own.at(-1)?.price ?? "",
      low: prices[0] ?? "",
      high: prices.at(-1) ?? "",
      volume: own.reduce((sum, { size }) => sum + size, 0n),
    };
  }

  function withoutReason(outcome: Outcome) {
    if ("reply" in outcome) return outcome;
    const { code, message } = outcome.error;
    return { error: { code, message } };
  }

  /** What the operations need to know of the network. */
  async function known(): Promise<Known> {
    const { marketsData } = await read<ListLatestMarketDataResponse>("/markets/data");
    const markets = marketsData.map(({ market }) => market);
    const { party, entries } = await busiestParty();
    return { market: markets[0] ?? "", other: markets[1] ?? "", party, asset: entries[0]?.assetId ?? "" };
  }
});

test("@marketd/client works in a browser, from another origin", { timeout: installMaxMs }, async (context) => {
  const [typescript] = languages;
  const chromium = partnerProgram("browser");
  if (typescript === undefined || chromium === undefined) return context.skip("there is no Chromium");
  await ready(typescript, context);
  const script = join(projectFolder(typescript), "browser-script.ts");
  await copyFile(new URL("browser-script.ts", import.meta.url), script);
  const page = await serveScript(script);
  const browser = await launchChromium(chromium);
  try {
    const tab = await browser.newPage();
    await tab.goto(page.url);
    const { party, entries } = await busiestParty();
    const asset = entries[0]?.assetId ?? "";
    const call = `tryClient(${JSON.stringify([service.url, party, asset]).slice(1, -1)})`;
    const found = await tab.evaluate<Findings>(call);
    const csv = await fetch(`${service.url}/api/v2/ledgerentry/export?partyId=${party}&assetId=${asset}&alt=media`);
    const { buy } = await depthOf(found.market);
    const sha256 = createHash("sha256")
      .update(await csv.text())
      .digest("hex");
    expect(found).toEqual({ market: found.market, bestBid: buy[0]?.price, received: entries.length, sha256 });
  } finally {
    await browser.close();
    page.close();
  }
});

/** A party that received in more than one page of the examples, and what it received, oldest first. */
async function busiestParty() {
  const { ledgerEntries } = await page({ "pagination.first": "5000" });
  const counts = new Map<string, number>();
  for (const { node } of ledgerEntries?.edges ?? []) {
    const party = node?.toAccountPartyId ?? "network";
    if (party !== "network") counts.set(party, (counts.get(party) ?? 0) + 1);
  }
  const [party = ""] = [...counts].sort(([, a], [, b]) => b - a)[0] ?? [];
  const response = await page({
    "filter.toAccountFilter.partyIds": party,
    "pagination.first": "5000",
    "pagination.newestFirst": "false",
  });
  const entries = (response.ledgerEntries?.edges ?? []).flatMap(({ node }) => (node === undefined ? [] : [node]));
  expect(entries.length).toBeGreaterThan(examplePageSize);
  return { party, entries };
}

/** The changes of a market's book until the newest block, as listed. */
async function changesOf(market: string): Promise<MarketDepthUpdate[]> {
  const newest = await fetch(`${service.url}/api/v2/market/${market}`);
  const query = { untilTimestamp: newest.headers.get("x-block-timestamp") ?? "", "pagination.first": "100" };
  const updates: MarketDepthUpdate[] = [];
  for (let after: Record<string, string> = {}; ; ) {
    const response = await read(`/api/v2/market/depth/${market}/changes`, { ...query, ...after });
    const { changes } = fromJson(ListMarketDepthChangesResponseSchema, response as JsonValue);
    updates.push(...(changes?.edges ?? []).flatMap(({ update }) => update ?? []));
    if (changes?.pageInfo?.hasNextPage !== true) return updates;
    after = { "pagination.after": changes.pageInfo.endCursor };
  }
}

/** What the strategy of the examples does with changes. */
function strategyOf(market: string, updates: readonly MarketDepthUpdate[]) {
  const book = new DepthBook(market);
  let [trades, position, cash, profit] = [0, 0n, 0n, 0n];
  const isHeavy = (level: DepthLevel, than: DepthLevel) => level.volume > 2n * than.volume;
  for (const update of updates) {
    expect(book.apply(update)).toBe("applied");
    const { bestBid, bestOffer } = book;
    if (bestBid === undefined || bestOffer === undefined) continue;
    const wanted = isHeavy(bestBid, bestOffer) ? 1n : isHeavy(bestOffer, bestBid) ? -1n : position;
    if (wanted !== position) trades++;
    cash -= (wanted - position) * BigInt((wanted > position ? bestOffer : bestBid).price);
    position = wanted;
    profit = cash + position * BigInt((position > 0n ? bestBid : bestOffer).price);
  }
  return { trades, profit };
}

test("backtests have the same result in every language, and go on live", { timeout: installMaxMs }, async () => {
  await Promise.all(installed.values());
  const market = await firstMarket();
  const { trades, profit } = strategyOf(market, await changesOf(market));
  expect(trades).toBeGreaterThan(3);
  const readers = languages
    .filter(({ name }) => name !== "shell" && !skipped.has(name))
    .map((language) => start([...language.example(projectFolder(language), backtest), market]));
  const summary = `backtest: ${trades} trades, profit ${profit}`;
  await vi.waitFor(() => {
    for (const lines of readers) expect(lines).toContain(summary);
  }, backtestPatience);
  for (const lines of readers) expect(lines.slice(0, lines.indexOf(summary))).toHaveLength(trades);
  for (let blocks = loaded + 1; readers.some((lines) => lines.length === trades + 1); blocks++) {
    expect(blocks).toBeLessThan(network.blocks);
    await load(blocks);
    await sleep(liveBlockMs);
  }
});

test("trades go on where they were when the server is killed, each once", { timeout: installMaxMs }, async () => {
  await Promise.all(installed.values());
  const market = await busiestMarket();
  const readers = languages
    .filter(({ name }) => name !== "shell" && !skipped.has(name))
    .map((language) => start([...language.example(projectFolder(language), "trades"), market.id]));
  const compare = async () => {
    const expected = await tradeLines(market);
    await vi.waitFor(
      () => {
        for (const lines of readers) expect(lines.length).toBe(expected.length);
      },
      { timeout: 40_000 },
    );
    for (const lines of readers) expect(lines).toEqual(expected);
    return expected.length;
  };
  for (let round = 0, before = 0; round < 3; round++) {
    const now = await compare();
    expect(now).toBeGreaterThan(before);
    before = now;
    // While the stream is open, then while there is none.
    await load(loaded + 5);
    await service.kill();
    await load(loaded + 5);
    await service.start();
  }
  await compare();
});

test("live order books go on when the server restarts", { timeout: installMaxMs }, async () => {
  await Promise.all(installed.values());
  const market = await firstMarket();
  const readers = languages
    .filter((language) => !skipped.has(language.name))
    .map((language) => ({
      name: language.name,
      lines: start([...language.example(projectFolder(language), "live-order-book"), market]),
    }));
  /** Every reader's newest book, and what it should be. */
  const compare = async () => {
    const { buy, sell } = await depthOf(market);
    const best = `${buy[0]?.volume} at ${buy[0]?.price} / ${sell[0]?.volume} at ${sell[0]?.price}`;
    const book = `${best}, ${buy.length} and ${sell.length} levels`;
    const held = ({ lines }: { lines: string[] }) => lines.at(-1)?.replace(/^\S+ [0-9]+: /, "");
    const all = (value: (reader: (typeof readers)[number]) => string | undefined) =>
      Object.fromEntries(readers.map((reader) => [reader.name, value(reader)]));
    const expected = all(() => book);
    await vi.waitFor(() => expect(all(held)).toEqual(expected), { timeout: 40_000 });
    return book;
  };
  const before = await compare();
  await service.stop();
  await load(network.blocks);
  await service.start();
  expect(await compare()).not.toBe(before);
});
