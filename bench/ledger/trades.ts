import { createHash } from "node:crypto";
import { firstIdOfBlock } from "../../src/domain/block-position.js";
import { addToCandle, type Candle, type CandleScale } from "../../src/domain/candle.js";
import type { PageRequest } from "../../src/domain/page.js";
import type { Call } from "../../src/domain/service.js";
import { Random } from "../../src/simulator/random.js";
import { candleRows } from "../../src/store/candle-table.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { pastTradeRows } from "../../src/store/history-table.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { type CandlePlace, readCandles } from "../../src/trades/candle-reader.js";
import { readTrades, type TradeFilter } from "../../src/trades/trade-reader.js";
import { connect, dropIndexes, isMade, loadLines, setMade, taken } from "./dataset.js";
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
/** Trades of the party that trades seldom, and the share of the one that trades most. */
const coldTrades = 20;
const hotShare = 0.05;

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

/** What the numbers mean. */
const scale: CandleScale = { priceDecimals: 2n, sizeDecimals: 3n };

/** Deterministic trades of some markets, a few with most of them, and their candles of a minute. */
class TradeDataset {
  readonly blocks: string[] = [];
  readonly candles: string[] = [];
  /** The newest candle of each market. */
  readonly #newest = new Map<string, Candle>();
  readonly #random = new Random(1, "trades");

  constructor(readonly trades: number) {}

  /** Lines of a block at a time for `trade`; those for `block` and `candle` are in their lists. */
  *lines(): Generator<string, void, undefined> {
    const coldEvery = Math.ceil(this.trades / coldTrades);
    for (let at = 0; at < this.trades; at += tradesPerBlock) {
      const count = Math.min(tradesPerBlock, this.trades - at);
      const height = BigInt(Math.floor(at / tradesPerBlock) + 1);
      const timeNs = genesisNs + height * blockTimeNs;
      this.blocks.push(`${height}\t${timeNs}\t${height}\t0\n`);
      let text = "";
      for (let n = at; n < at + count; n++) {
        const buyer = n % coldEvery === 7 ? coldParty : this.#random.chance(hotShare) ? hotParty : this.#other();
        text += this.#line(n, firstIdOfBlock(height) + BigInt(n - at), timeNs, buyer);
      }
      yield text;
    }
    for (const candle of this.#newest.values()) this.#end(candle);
  }

  #line(n: number, id: bigint, timeNs: bigint, buyer: string): string {
    const marketId = marketIds[Math.floor(marketCount * this.#random.unit() ** 3)] ?? "";
    const price = String(100_000 + this.#random.below(1_000));
    const size = BigInt(1 + this.#random.below(100_000));
    const before = this.#newest.get(marketId);
    const candle = addToCandle(before, { id, marketId, timeNs, price, size }, periodSeconds, scale);
    if (before !== undefined && before.firstTrade !== candle.firstTrade) this.#end(before);
    this.#newest.set(marketId, candle);
    const head = `${id}\t${marketId}\t${numbered(n)}\t${price}\t${size}\t${buyer}\t${this.#other()}\t1`;
    return `${head}\t${orderOf(n, 0)}\t${orderOf(n, 1)}\t${timeNs}\t1\t${size}\t${size}\t0\t0\t0\t0\t0\t0\n`;
  }

  #end(candle: Candle): void {
    this.candles.push(`${candleRows.values(candle).join("\t")}\n`);
  }

  /** A party that is neither hot nor cold. */
  #other(): string {
    return partyIds[2 + this.#random.below(partyCount - 2)] ?? "";
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
    if (await isMade(connection)) return;
    for (const table of ["block", "trade", "candle", "trade_progress"]) await connection.query(`TRUNCATE ${table}`);
    await connection.query("SET SESSION unique_checks = 0");
    await dropIndexes(connection, "trade", indexes);
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
    await setMade(connection);
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
    const read = async (request: PageRequest<CandlePlace>, endNs?: bigint) =>
      (await readCandles(this.#ours, series, { startNs: undefined, endNs }, request, call)).rows;
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
