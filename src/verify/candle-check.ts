import { isDeepStrictEqual } from "node:util";
import { firstIdOfBlock } from "../domain/block-position.js";
import { addToCandle, type Candle, type CandleTrade, candleIntervals } from "../domain/candle.js";
import { candleRows, readNewestCandles } from "../store/candle-table.js";
import type { Connection } from "../store/connection/connection.js";
import { pastTradeRows } from "../store/history-table.js";
import { tradeRows } from "../store/market-table.js";
import { addSum, noRows, type RowSum, readTableDigests, sumOf } from "../store/table-digest-table.js";
import { readTradeProgress, tradeProgressRows } from "../store/trade-table.js";
import type { Findings } from "./findings.js";

const rowsPerQuery = 10_000;

/** Trades and candles as of one snapshot. */
export interface TradeSnapshot {
  /** The newest candles, which go on. */
  readonly newest: readonly Candle[];
  /** Trades from this id on are those of every block, and so are candles that begin with them. */
  readonly firstTrade: bigint;
  /** The newest trade. */
  readonly lastTrade: bigint;
  /** What all trades, and all candles, have to add up to; undefined: it is not known. */
  readonly tradeSum: RowSum | undefined;
  readonly candleSum: RowSum | undefined;
  /** Whether the loader drops old ones. */
  readonly isPruned: boolean;
}

export async function readTradeSnapshot(connection: Connection): Promise<TradeSnapshot> {
  const kept = await readTradeProgress(connection);
  const digests = await readTableDigests(connection, "history_digest");
  const isKept = kept !== undefined || digests.has(tradeProgressRows.table);
  const written = (table: string) => digests.get(table) ?? (isKept ? undefined : noRows);
  const [last] = await connection.query<{ id: bigint | null }>("SELECT MAX(id) AS id FROM trade");
  return {
    newest: await readNewestCandles(connection),
    firstTrade: firstIdOfBlock(kept?.oldest.height ?? 0n),
    lastTrade: last?.id ?? 0n,
    tradeSum: written(pastTradeRows.table),
    candleSum: written(candleRows.table),
    isPruned: kept !== undefined && kept.oldest.height > kept.oldestOfCandles.height,
  };
}

/** Compares last trades with the trades, and counts candles. In the snapshot of the progress. */
export async function checkTradesNow(connection: Connection, findings: Findings): Promise<TradeSnapshot> {
  const snapshot = await readTradeSnapshot(connection);
  const { tradeSum, candleSum: sum } = snapshot;
  if (tradeSum === undefined) findings.add("history_digest", undefined, `it has no row of ${pastTradeRows.table}`);
  const columns = tradeRows.columns.filter((column) => pastTradeRows.columns.includes(column));
  const isSame = columns.map((column) => `t.${column} = l.${column}`);
  const differing = await connection.query<{ marketId: string }>(
    `SELECT l.market_id AS marketId FROM last_trade l JOIN trade t
       ON t.id = (SELECT x.id FROM trade x WHERE x.market_id = l.market_id ORDER BY x.id DESC LIMIT 1)
     WHERE NOT (${isSame.join(" AND ")})`,
  );
  for (const { marketId } of differing) {
    findings.add("last_trade", undefined, `market ${marketId}: it is not the newest of the market's trades`);
  }
  const [count] = await connection.query<{ n: bigint }>("SELECT COUNT(*) AS n FROM candle");
  if (sum === undefined) findings.add("history_digest", undefined, `it has no row of ${candleRows.table}`);
  else if (count?.n !== sum.rows) {
    findings.add(candleRows.table, undefined, `it has ${count?.n} rows in place of ${sum.rows}`);
  }
  return snapshot;
}

/** Compares the candles with their digest, and with a fold of the trades. The loader may add some meanwhile. */
export async function checkCandles(
  connection: Connection,
  { newest, firstTrade, lastTrade, candleSum: sum }: TradeSnapshot,
  findings: Findings,
): Promise<void> {
  const all = { sum: noRows };
  for (const marketId of await readMarketIds(connection)) {
    const series = candleIntervals.map(({ seconds }) => {
      return new SeriesCheck(connection, { marketId, seconds, firstTrade, lastTrade, all }, newest);
    });
    for await (const trade of readTrades(connection, marketId, firstTrade, lastTrade)) {
      for (const each of series) await each.add(trade);
    }
    for (const each of series) {
      if (await each.isRight()) continue;
      findings.add(
        candleRows.table,
        undefined,
        `market ${marketId}, ${each.seconds} s: they are not what the trades add up to`,
      );
    }
  }
  if (sum !== undefined && !isDeepStrictEqual(sum, all.sum)) {
    findings.add(candleRows.table, undefined, "it is not what was written");
  }
}

/** The markets that have candles or trades. A UNION of texts would take those for one that differ in case. */
async function readMarketIds(connection: Connection): Promise<Set<string>> {
  const ids = new Set<string>();
  for (const table of [candleRows.table, "trade"]) {
    const markets = await connection.query<{ marketId: string }>(
      `SELECT market_id AS marketId FROM ${table} GROUP BY market_id`,
    );
    for (const { marketId } of markets) ids.add(marketId);
  }
  return ids;
}

async function* readTrades(
  connection: Connection,
  marketId: string,
  first: bigint,
  last: bigint,
): AsyncGenerator<CandleTrade> {
  for (let next = first; ; ) {
    const rows = await connection.query<CandleTrade>(
      `SELECT id, market_id AS marketId, time_ns AS timeNs, price, size FROM trade FORCE INDEX (trade_market)
       WHERE market_id = ? AND id >= ${next} AND id <= ${last} ORDER BY id LIMIT ${rowsPerQuery}`,
      [marketId],
    );
    yield* rows;
    const end = rows.at(-1);
    if (end === undefined || rows.length < rowsPerQuery) return;
    next = end.id + 1n;
  }
}

/** What the series of candles is, and what it has to be. Their decimals are believed: only the rows have them. */
class SeriesCheck {
  readonly seconds: number;
  readonly #firstTrade: bigint;
  readonly #rows: AsyncGenerator<Candle>;
  #expected: RowSum = noRows;
  #found: RowSum = noRows;
  #folded: Candle | undefined;
  #row: Candle | undefined;
  #next: Candle | undefined;
  #isStarted = false;

  constructor(connection: Connection, range: SeriesRange, newest: readonly Candle[]) {
    this.seconds = range.seconds;
    this.#firstTrade = range.firstTrade;
    this.#rows = readCandles(connection, range, newest);
  }

  async add(trade: CandleTrade): Promise<void> {
    if (!this.#isStarted) await this.#advance();
    while (this.#next !== undefined && this.#next.firstTrade <= trade.id) await this.#advance();
    if (this.#isOfDropped(trade)) return;
    const scale = this.#row ?? { priceDecimals: 0n, sizeDecimals: 0n };
    const folded = addToCandle(this.#folded, trade, this.seconds, scale);
    if (folded.firstTrade === trade.id) this.#end();
    this.#folded = folded;
  }

  /** Whether its candle began with a trade that is not kept: the row alone tells what that is. */
  #isOfDropped(trade: CandleTrade): boolean {
    const row = this.#row;
    if (row === undefined || row.firstTrade >= this.#firstTrade) return false;
    return addToCandle({ ...row, volume: 0n }, trade, this.seconds, row).firstTrade === row.firstTrade;
  }

  async isRight(): Promise<boolean> {
    this.#end();
    do await this.#advance();
    while (this.#row !== undefined || this.#next !== undefined);
    return this.#expected.rows === this.#found.rows && this.#expected.sum === this.#found.sum;
  }

  #end(): void {
    if (this.#folded !== undefined) this.#expected = addCandle(this.#expected, this.#folded);
    this.#folded = undefined;
  }

  async #advance(): Promise<void> {
    this.#isStarted = true;
    this.#row = this.#next;
    const { value, done } = await this.#rows.next();
    this.#next = done === true ? undefined : value;
    if (this.#next === undefined || this.#next.firstTrade < this.#firstTrade) return;
    this.#found = addCandle(this.#found, this.#next);
  }
}

function addCandle(sum: RowSum, candle: Candle): RowSum {
  return addSum(sum, sumOf(candleRows, [candleRows.values(candle)]));
}

interface SeriesRange {
  readonly marketId: string;
  readonly seconds: number;
  readonly firstTrade: bigint;
  readonly lastTrade: bigint;
  /** What the rows of all series add up to. */
  readonly all: { sum: RowSum };
}

/** The rows of a series as they were in the snapshot. */
async function* readCandles(
  connection: Connection,
  { marketId, seconds, lastTrade, all }: SeriesRange,
  newest: readonly Candle[],
): AsyncGenerator<Candle> {
  const current = newest.filter((one) => one.marketId === marketId && one.periodSeconds === seconds);
  for await (const rows of readSeries(connection, marketId, seconds)) {
    for (const row of rows) {
      if (row.firstTrade > lastTrade) continue;
      const then = current.find((one) => one.startNs === row.startNs && one.firstTrade === row.firstTrade) ?? row;
      all.sum = addCandle(all.sum, then);
      yield then;
    }
  }
}

/** What all candles add up to. */
export async function sumCandles(connection: Connection): Promise<RowSum> {
  let sum = noRows;
  for (const marketId of await readMarketIds(connection)) {
    for (const { seconds } of candleIntervals) {
      for await (const rows of readSeries(connection, marketId, seconds)) sum = rows.reduce(addCandle, sum);
    }
  }
  return sum;
}

/** The rows of a market and interval, in order and in parts. */
async function* readSeries(connection: Connection, marketId: string, seconds: number): AsyncGenerator<Candle[]> {
  let after = { startNs: -1n, firstTrade: 0n };
  for (;;) {
    const rows = await connection.query<Candle>(
      `${candleRows.select} FORCE INDEX (PRIMARY) WHERE market_id = ? AND period_seconds = ${seconds}
         AND start_ns >= ${after.startNs} AND NOT (start_ns = ${after.startNs} AND first_trade <= ${after.firstTrade})
       ORDER BY start_ns, first_trade LIMIT ${rowsPerQuery}`,
      [marketId],
    );
    yield rows;
    const end = rows.at(-1);
    if (end === undefined || rows.length < rowsPerQuery) return;
    after = end;
  }
}
