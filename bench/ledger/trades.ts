import { createHash } from "node:crypto";
import type mysql from "mysql2/promise";
import { firstIdOfBlock } from "../../src/domain/block-position.js";
import type { PageRequest } from "../../src/domain/page.js";
import type { Call } from "../../src/domain/service.js";
import { candleRows } from "../../src/store/candle-table.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { pastTradeRows } from "../../src/store/history-table.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { type CandlePlace, readCandles } from "../../src/trades/candle-reader.js";
import { readTrades, type TradeFilter } from "../../src/trades/trade-reader.js";
import { connect, loadLines, taken } from "./dataset.js";
import type { BenchFilter } from "./filters.js";
import { bestByHand, limitHand, type PageBench, type Position, type Subject } from "./pages.js";

const tradesPerBlock = 20;
const marketCount = 50;
const partyCount = 20_000;
const blockTimeNs = 1_000_000_000n;
const genesisNs = 1_674_004_020_000_000_000n;
const periodSeconds = 60;
/** Blocks of one LOAD DATA. */
const blocksPerLoad = 100_000;
/** Trades of the party that trades seldom. */
const coldTrades = 20;

/** 64 hexadecimal digits, as the network's identifiers are. */
const identifier = (kind: string, number: number) => createHash("sha256").update(`${kind} ${number}`).digest("hex");
const marketIds = Array.from({ length: marketCount }, (_, number) => identifier("market", number));
const partyIds = Array.from({ length: partyCount }, (_, number) => identifier("party", number));
const [hotParty = "", coldParty = ""] = partyIds;

/** Of an order or a trade: scattered, but made without a hash each. */
function numbered(number: number): string {
  const scattered = Math.imul(number, 0x9e3779b1) >>> 0;
  return scattered.toString(16).padStart(8, "0") + number.toString(16).padStart(56, "0");
}

/** Each order has a handful of trades. */
const orderOf = (trade: number, side: number) => numbered(2 * Math.floor(trade / 3) + side);

interface OpenCandle {
  readonly startSecond: number;
  readonly firstTrade: bigint;
  lastNs: string;
  readonly open: number;
  high: number;
  low: number;
  close: number;
  volume: number;
}

/** Deterministic trades of some markets, a few with most of them, and their candles of a minute. */
class TradeDataset {
  readonly blocks: string[] = [];
  readonly candles: string[] = [];
  readonly #open = new Map<number, OpenCandle>();
  #seed = 1;

  constructor(readonly trades: number) {}

  /** Lines of a block at a time for `trade`; those for `block` and `candle` are in their lists. */
  *lines(): Generator<string, void, undefined> {
    const coldEvery = Math.ceil(this.trades / coldTrades);
    for (let at = 0; at < this.trades; at += tradesPerBlock) {
      const count = Math.min(tradesPerBlock, this.trades - at);
      const second = Math.floor(at / tradesPerBlock) + 1;
      const height = BigInt(second);
      const time = String(genesisNs + height * blockTimeNs);
      this.blocks.push(`${height}\t${time}\t${height}\t0\n`);
      let text = "";
      for (let n = at; n < at + count; n++) {
        const party = n % coldEvery === 7 ? 1 : this.#random() < 0.05 ? 0 : 2 + this.#below(partyCount - 2);
        text += this.#line(n, firstIdOfBlock(height) + BigInt(n - at), second, time, partyIds[party] ?? "");
      }
      yield text;
    }
    for (const market of this.#open.keys()) this.#close(market);
  }

  #line(n: number, id: bigint, second: number, time: string, buyer: string): string {
    const market = Math.floor(marketCount * this.#random() ** 3);
    const price = 100_000 + this.#below(1_000);
    const size = 1 + this.#below(100_000);
    this.#addToCandle(market, { id, second, time, price, size });
    const seller = partyIds[2 + this.#below(partyCount - 2)];
    const head = `${id}\t${marketIds[market]}\t${numbered(n)}\t${price}\t${size}\t${buyer}\t${seller}\t1`;
    return `${head}\t${orderOf(n, 0)}\t${orderOf(n, 1)}\t${time}\t1\t${size}\t${size}\t0\t0\t0\t0\t0\t0\n`;
  }

  #addToCandle(
    market: number,
    trade: {
      readonly id: bigint;
      readonly second: number;
      readonly time: string;
      readonly price: number;
      readonly size: number;
    },
  ): void {
    const { price, size, time } = trade;
    const startSecond = trade.second - (trade.second % periodSeconds);
    const open = this.#open.get(market);
    if (open?.startSecond !== startSecond) {
      this.#close(market);
      const prices = { open: price, high: price, low: price, close: price };
      this.#open.set(market, { startSecond, firstTrade: trade.id, lastNs: time, ...prices, volume: size });
      return;
    }
    open.high = Math.max(open.high, price);
    open.low = Math.min(open.low, price);
    open.close = price;
    open.volume += size;
    open.lastNs = time;
  }

  #close(market: number): void {
    const candle = this.#open.get(market);
    if (candle === undefined) return;
    const { startSecond, firstTrade, lastNs, open, high, low, close, volume } = candle;
    const start = genesisNs + BigInt(startSecond) * blockTimeNs;
    const key = `${marketIds[market]}\t${periodSeconds}\t${start}\t${firstTrade}`;
    this.candles.push(`${key}\t${lastNs}\t${open}\t${high}\t${low}\t${close}\t${volume}\t2\t3\n`);
  }

  #below(end: number): number {
    return Math.floor(this.#random() * end);
  }

  /** mulberry32 */
  #random(): number {
    this.#seed = (this.#seed + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#seed ^ (this.#seed >>> 15), 1 | this.#seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }
}

const indexes = [
  "trade_market (market_id, id)",
  "trade_buyer (buyer, id, market_id)",
  "trade_seller (seller, id, market_id)",
  "trade_buy_order (buy_order, id)",
  "trade_sell_order (sell_order, id)",
];

/** Fills a database with trades, unless they are there. Indexes are built after the rows: the sorted way is faster. */
export async function makeTrades(url: string, trades: number, say: (text: string) => void): Promise<void> {
  await migrate(url, createLog("error"));
  const connection = await connect(url);
  try {
    const [rows] = await connection.query<mysql.RowDataPacket[]>("SELECT stream_sequence AS done FROM progress");
    if (rows.length > 0) return;
    for (const table of ["block", "trade", "candle", "trade_progress"]) await connection.query(`TRUNCATE ${table}`);
    await connection.query("SET SESSION unique_checks = 0");
    const names = indexes.map((index) => index.slice(0, index.indexOf(" ")));
    const [present] = await connection.query<mysql.RowDataPacket[]>("SHOW INDEX FROM trade");
    const drops = names.filter((name) => present.some((row) => row["Key_name"] === name));
    if (drops.length > 0)
      await connection.query(`ALTER TABLE trade ${drops.map((name) => `DROP INDEX ${name}`).join(", ")}`);
    const dataset = new TradeDataset(trades);
    const lines = dataset.lines();
    for (let loaded = 0; loaded < trades; loaded += blocksPerLoad * tradesPerBlock) {
      await loadLines(connection, "trade", taken(lines, blocksPerLoad));
      await loadLines(connection, "block", dataset.blocks.splice(0));
      say(`${Math.min(loaded + blocksPerLoad * tradesPerBlock, trades).toLocaleString("en")} trades`);
    }
    // The end of the lines closes the last candles.
    for (const _ of lines);
    await loadLines(connection, "candle", dataset.candles);
    say(`building ${indexes.length} indexes`);
    for (const index of indexes) await connection.query(`ALTER TABLE trade ADD INDEX ${index}`);
    await connection.query("ANALYZE TABLE trade, block, candle");
    await connection.query(
      "INSERT INTO trade_progress SELECT n, MAX(height), 0, 0 FROM block, (SELECT 1 AS n UNION SELECT 2) AS t GROUP BY n",
    );
    await connection.query(
      "INSERT INTO progress SELECT 1, 'bench', MAX(height), MAX(height), MAX(time_ns), 0 FROM block",
    );
  } finally {
    await connection.end();
  }
}

/** Trades that are asked for, or candles of a minute of a market. */
export type TradeQuestion = { readonly name: string } & (
  | { readonly filter: TradeFilter }
  | { readonly candlesOf: string }
);

const none: TradeFilter = { marketIds: [], partyIds: [], orderIds: [] };
const [hotMarket = "", busyMarket = "", market = ""] = [0, 1, 7].map((number) => marketIds[number]);

/** What people ask, and what is hard. */
export const tradeQuestions: readonly TradeQuestion[] = [
  { name: "all trades", filter: none },
  { name: "trades of a market", filter: { ...none, marketIds: [market] } },
  { name: "trades of a hot market", filter: { ...none, marketIds: [hotMarket] } },
  { name: "trades of three markets", filter: { ...none, marketIds: [hotMarket, busyMarket, market] } },
  { name: "trades of a hot party", filter: { ...none, partyIds: [hotParty] } },
  { name: "trades of a cold party", filter: { ...none, partyIds: [coldParty] } },
  { name: "trades of a hot party, one market", filter: { ...none, partyIds: [hotParty], marketIds: [market] } },
  { name: "trades of an order", filter: { ...none, orderIds: [orderOf(300_000, 0)] } },
  { name: "candles of a minute", candlesOf: hotMarket },
];

const call: Call = {
  signal: new AbortController().signal,
  clientAddress: "127.0.0.1",
  requestHeaders: {},
  codec: "proto",
};

/** Trades of one size, beside a ledger of as many entries. */
export class TradeBench implements PageBench<TradeQuestion> {
  readonly #ours: Database;
  readonly #hand: Database;

  constructor(
    url: string,
    readonly entries: number,
    private readonly ledger: PageBench<BenchFilter>,
    private readonly ledgerQuestion: BenchFilter,
  ) {
    this.#ours = openDatabase(url, { connectionsMax: 1 });
    this.#hand = openDatabase(url, { connectionsMax: 1 });
  }

  async start(): Promise<void> {
    await limitHand(this.#hand);
  }

  async close(): Promise<void> {
    await this.#ours.close();
    await this.#hand.close();
  }

  async subject(question: TradeQuestion, position: Position, size: number): Promise<Subject> {
    const { ways } = await this.ledger.subject(this.ledgerQuestion, position, size);
    const asked = "filter" in question ? this.#trades(question.filter) : this.#candles(question.candlesOf);
    const { read, statements } = await asked(position, size);
    const [way, sql] = await bestByHand(this.#hand, statements);
    const rows = await read();
    const ledger = ways.ours ?? (async () => {});
    return { ways: { ours: read, hand: () => this.#hand.query(sql), ledger }, rows, way, plans: "" };
  }

  #trades(filter: TradeFilter) {
    const read = async (request: PageRequest<bigint>) =>
      (await readTrades(this.#ours, filter, { startNs: undefined, endNs: undefined }, request, call)).rows;
    const one = { newestFirst: true, size: 1, backwards: false, cursor: undefined };
    return async (position: Position, size: number) => {
      const [newest, oldest] = [(await read(one))[0], (await read({ ...one, backwards: true }))[0]];
      const between = ((newest?.id ?? 0n) + (oldest?.id ?? 0n)) / 2n;
      const cursor = position === "middle" ? ((await read({ ...one, cursor: between }))[0]?.id ?? between) : undefined;
      const request = { newestFirst: true, size, backwards: position === "last", cursor };
      const bound = cursor === undefined ? "" : ` AND id < ${cursor}`;
      const statements = tradesByHand(filter, bound, position === "last" ? "ASC" : "DESC", size);
      return { read: async () => (await read(request)).length, statements };
    };
  }

  #candles(marketId: string) {
    const series = { marketId, seconds: periodSeconds };
    const read = async (request: PageRequest<CandlePlace>, toNs?: bigint) =>
      (await readCandles(this.#ours, series, { fromNs: undefined, toNs }, request, call)).rows;
    const one = { newestFirst: true, size: 1, backwards: false, cursor: undefined };
    return async (position: Position, size: number) => {
      const [newest, oldest] = [(await read(one))[0], (await read({ ...one, backwards: true }))[0]];
      const between = ((newest?.startNs ?? 0n) + (oldest?.startNs ?? 0n)) / 2n;
      const [cursor] = position === "middle" ? await read(one, between) : [];
      const request = { newestFirst: true, size, backwards: position === "last", cursor };
      const bound = cursor === undefined ? "" : ` AND start_ns < ${cursor.startNs}`;
      const order = position === "last" ? "ASC" : "DESC";
      const sql = `${candleRows.select} WHERE market_id = '${marketId}' AND period_seconds = ${periodSeconds}${bound}
        ORDER BY start_ns ${order}, first_trade ${order} LIMIT ${size}`;
      return { read: async () => (await read(request)).length, statements: new Map([["a range of the key", sql]]) };
    };
  }
}

/** The ways in which a person would ask for a page of trades, by their names. */
function tradesByHand(
  { marketIds: markets, partyIds: parties, orderIds }: TradeFilter,
  bound: string,
  order: string,
  size: number,
) {
  const quoted = (ids: readonly string[]) => ids.map((id) => `'${id}'`).join(", ");
  const end = `ORDER BY id ${order} LIMIT ${size}`;
  const ofMarkets = markets.length === 0 ? "" : ` AND market_id IN (${quoted(markets)})`;
  const sides = orderIds.length > 0 ? ["buy_order", "sell_order"] : parties.length > 0 ? ["buyer", "seller"] : [];
  const ids = orderIds.length > 0 ? orderIds : parties;
  const either = sides.length === 0 ? "" : ` AND (${sides.map((side) => `${side} IN (${quoted(ids)})`).join(" OR ")})`;
  const ways = new Map([["one condition", `${pastTradeRows.select} WHERE id > 0${either}${ofMarkets}${bound} ${end}`]]);
  const branches =
    sides.length > 0
      ? sides.flatMap((side) => ids.map((id) => `${side} = '${id}'${ofMarkets}`))
      : markets.map((id) => `market_id = '${id}'`);
  if (branches.length === 0) return ways;
  const parts = branches.map((branch) => `(SELECT id FROM trade WHERE ${branch}${bound} ${end})`);
  const union = `SELECT id FROM (${parts.join(" UNION ")}) AS u ${end}`;
  return ways.set("a union", `${pastTradeRows.select} JOIN (${union}) AS page USING (id) ORDER BY id ${order}`);
}
