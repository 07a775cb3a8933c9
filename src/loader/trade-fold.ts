import { entriesPerBlockMax, entryId, firstIdOfBlock, positionBits } from "../domain/block-position.js";
import { addToCandle, type Candle, type CandleTrade, candleIntervals } from "../domain/candle.js";
import { candleRows, readNewestCandles } from "../store/candle-table.js";
import type { Connection } from "../store/connection/connection.js";
import { type PastTradeRow, pastTradeRows, readHistorySequence } from "../store/history-table.js";
import { everythingKept, type OldestKept } from "../store/ledger-entry-table.js";
import { type TradeRow, tradeRows } from "../store/market-table.js";
import type { Progress } from "../store/progress-table.js";
import type { StatementGroup } from "../store/statement-group.js";
import { type RowSum, readTableDigests, sumOf } from "../store/table-digest-table.js";
import {
  dropTrades,
  readCandlesOfTrades,
  readTradeProgress,
  type TradeBatch,
  type TradeProgress,
  toTradeProgressRows,
  tradeProgressRows,
} from "../store/trade-table.js";
import { type Decimals, readDecimals } from "./market-decimals.js";
import { addRowTo, addTo, type PastSums, replaceRow, startSums } from "./past-sums.js";

/**
 * Where trades that were carried over from blocks without trades lie in their block: their last positions, down from its
 * end. Others count from 0.
 */
const firstCarriedPosition = entriesPerBlockMax / 2;

/** Old trades that one transaction examines, besides as many as it writes: a bounded time of the server's. */
export const droppedTradesMax = 2_000;

/** Old trades are dropped in so many steps in the time that they are kept for, and at least each minute. */
const dropSteps = 60n;
const dropStepNsMax = 60_000_000_000n;

/**
 * Trades from before this time are dropped. It depends on the blocks alone, and moves in steps, because each look for
 * old trades costs reads.
 */
function keptSince(newestTimeNs: bigint, keepNs: bigint): bigint {
  // Rounded up: never 0.
  const part = (keepNs + dropSteps - 1n) / dropSteps;
  const stepNs = part < dropStepNsMax ? part : dropStepNsMax;
  const sinceNs = newestTimeNs - keepNs;
  return sinceNs - (sinceNs % stepNs);
}

/** The trades as the last loader left them. */
export interface TradeStart {
  readonly progress: TradeProgress;
  /** The newest block, and how many trades it has. */
  readonly block: { readonly height: bigint; readonly position: number };
  /** The last trades of markets that are not written. */
  readonly lost: readonly PastTradeRow[];
  /** The newest candles, in the order of their first trades. */
  readonly candles: readonly Candle[];
  /** Of the markets that are announced. */
  readonly scales: ReadonlyMap<string, Decimals>;
  readonly digests: ReadonlyMap<string, RowSum>;
  /** Whether no loader that keeps trades was here before. */
  readonly isFirst: boolean;
}

/** Of an empty store. */
export const noTrades: TradeStart = {
  progress: { streamSequence: 0n, oldest: everythingKept, oldestOfCandles: everythingKept },
  block: { height: 0n, position: 0 },
  lost: [],
  candles: [],
  scales: new Map(),
  digests: new Map(),
  isFirst: true,
};

/** Reads where the loader goes on, in the snapshot of the progress. */
export async function readTradeStart(connection: Connection, store: Progress | undefined): Promise<TradeStart> {
  const found = await readTradeProgress(connection);
  const digests = await readTableDigests(connection, "history_digest");
  const height = store?.height ?? 0n;
  const [last] = await connection.query<{ id: bigint | null }>(
    "SELECT MAX(id) AS id FROM trade WHERE id >= ? AND id < ?",
    [firstIdOfBlock(height), entryId(height, firstCarriedPosition)],
  );
  const position = last?.id == null ? 0 : Number(last.id - firstIdOfBlock(height)) + 1;
  const isFirst = found === undefined && !digests.has(tradeProgressRows.table);
  const start = { block: { height, position }, digests, isFirst, scales: await readDecimals(connection) };
  const reached = found?.streamSequence ?? 0n;
  if (store === undefined || reached === store.streamSequence) {
    return { ...start, progress: found ?? noTrades.progress, lost: [], candles: await readNewestCandles(connection) };
  }
  // Blocks were loaded without their trades. The next one has a height of its own, and may have the same time.
  const oldest = { height: height + 1n, timeNs: store.timeNs + 1n };
  // Before there was a progress of its own, the one of the past was that of trades.
  const after = found?.streamSequence ?? (await readHistorySequence(connection));
  const lost = await readLostTrades(connection, after);
  // Candles that go on would lack the trades in between.
  return { ...start, progress: { streamSequence: reached, oldest, oldestOfCandles: oldest }, lost, candles: [] };
}

/** The last trades of markets that came after an event. */
async function readLostTrades(connection: Connection, after: bigint): Promise<PastTradeRow[]> {
  const trades = await connection.query<TradeRow>(`${tradeRows.select} WHERE changed_sequence > ? ORDER BY market_id`, [
    after,
  ]);
  const heights = await connection.query<{ marketId: string; height: bigint }>(
    `SELECT market_id AS marketId, (
       SELECT b.height FROM block AS b WHERE b.stream_sequence >= changed_sequence
       ORDER BY b.stream_sequence LIMIT 1) AS height
     FROM last_trade WHERE changed_sequence > ?`,
    [after],
  );
  const heightOf = new Map(heights.map((row) => [row.marketId, row.height]));
  const [before] = await connection.query<{ height: bigint }>(
    "SELECT height FROM block WHERE stream_sequence <= ? ORDER BY stream_sequence DESC LIMIT 1",
    [after],
  );
  // A block that goes on after trades were lost may have some already.
  const [lowest] = await connection.query<{ id: bigint | null }>("SELECT MIN(id) AS id FROM trade WHERE id >= ?", [
    entryId(before?.height ?? 0n, firstCarriedPosition),
  ]);
  const next = new Map<bigint, bigint>(lowest?.id == null ? [] : [[lowest.id >> positionBits, lowest.id]]);
  return trades.map((trade) => {
    const height = heightOf.get(trade.marketId) ?? before?.height ?? 0n;
    const id = (next.get(height) ?? firstIdOfBlock(height + 1n)) - 1n;
    next.set(height, id);
    return { id, ...trade };
  });
}

/** A market's prices and sizes have these decimals from a trade of its block on, by its place among them. */
export interface NewScale {
  readonly marketId: string;
  readonly trades: number;
  readonly scale: Decimals;
}

/** Of a market that was not announced yet. */
const noScale: Decimals = { priceDecimals: 0n, sizeDecimals: 0n };

/** Numbers the trades of blocks, and folds them into candles, whether or not the past of books is kept. */
export class TradeFold {
  #block: { readonly height: bigint; position: number };
  #progress: TradeProgress;
  readonly #sums: PastSums;
  #trades: PastTradeRow[] = [];
  readonly #scales: Map<string, Decimals>;
  /** The newest candle of each market and interval. */
  readonly #newest = new Map<string, Candle>();
  #candles = new Map<string, Candle>();
  /** Of each market and interval the newest that was taken. */
  readonly #taken = new Map<string, Candle>();
  readonly #keepNs: bigint | undefined;
  readonly #old = new OldTrades();

  /** @param keepNs how long trades are kept before the newest block, in nanoseconds; undefined: all are */
  constructor({ progress, block, lost, candles, scales, digests, isFirst }: TradeStart, keepNs?: bigint) {
    this.#keepNs = keepNs;
    this.#block = { ...block };
    this.#progress = progress;
    this.#sums = startSums([pastTradeRows, tradeProgressRows, candleRows], digests, isFirst);
    this.#scales = new Map(scales);
    for (const candle of candles) {
      this.#newest.set(keyOf(candle), candle);
      this.#taken.set(keyOf(candle), candle);
    }
    for (const trade of lost) this.#add(trade);
  }

  /** Trades that were not taken yet. */
  get rows(): number {
    return this.#trades.length + this.#candles.size;
  }

  /** Ends a block with these trades and new scales, in order. */
  endBlock(height: bigint, trades: readonly TradeRow[], newScales: readonly NewScale[]): void {
    if (this.#block.height !== height) this.#block = { height, position: 0 };
    const scales = [...newScales];
    const setScales = (before: number) => {
      for (; scales[0] !== undefined && scales[0].trades <= before; scales.shift()) {
        this.#scales.set(scales[0].marketId, scales[0].scale);
      }
    };
    for (const [index, trade] of trades.entries()) {
      setScales(index);
      const row = { id: entryId(height, this.#block.position++), ...trade };
      this.#add(row);
      this.#addToCandles(row);
    }
    setScales(trades.length);
  }

  /** What was folded since the last time, up to an event. */
  take(streamSequence: bigint): TradeBatch {
    const trades = this.#trades;
    const candles = [...this.#candles.values()];
    for (const candle of candles) this.#sumUp(candle);
    this.#trades = [];
    this.#candles = new Map();
    this.#progress = { ...this.#progress, streamSequence };
    const sums = new Map(this.#sums);
    setProgress(sums, this.#progress);
    return { trades, candles, progress: this.#progress, sums };
  }

  /**
   * Drops some of the trades that are older than those that are kept, within the transaction of the batch that was taken
   * last, whose statements are in the group. May be called repeatedly.
   */
  readonly prune = async (
    connection: Connection,
    group: StatementGroup,
    batch: TradeBatch,
    newestTimeNs: bigint,
  ): Promise<void> => {
    if (this.#keepNs === undefined) return;
    const beforeNs = keptSince(newestTimeNs, this.#keepNs);
    if (batch.dropped === undefined && !this.#old.isDue(beforeNs)) return;
    // The rows of the batch are among those that are read.
    await group.send();
    batch.dropped ??= await this.#findDropped(connection, batch, beforeNs);
    await dropTrades(group, batch.dropped);
  };

  async #findDropped(connection: Connection, batch: TradeBatch, beforeNs: bigint): Promise<readonly bigint[]> {
    const examinedMax = droppedTradesMax + batch.trades.length;
    const { oldest, trades, drop } = await this.#old.find(connection, beforeNs, examinedMax);
    const ids = trades.map(({ id }) => id);
    const candles = await readCandlesOfTrades(connection, ids);
    // All reads come first: if one fails, the next attempt finds the same trades.
    drop();
    if (oldest.height > batch.progress.oldest.height) {
      this.#progress = { ...batch.progress, oldest };
      batch.progress = this.#progress;
      setProgress(batch.sums, this.#progress);
    }
    const sum = sumOf(pastTradeRows, trades.map(pastTradeRows.values));
    const candleSum = sumOf(candleRows, candles.map(candleRows.values));
    // The sums here have the trades of later blocks already.
    for (const sums of [this.#sums, batch.sums]) {
      addTo(sums, pastTradeRows, sum, -1n);
      addTo(sums, candleRows, candleSum, -1n);
    }
    return ids;
  }

  /** Candles of a market and interval come in their order. */
  #sumUp(candle: Candle): void {
    const before = this.#taken.get(keyOf(candle));
    replaceRow(this.#sums, candleRows, before?.firstTrade === candle.firstTrade ? before : undefined, candle);
    this.#taken.set(keyOf(candle), candle);
  }

  #addToCandles(trade: CandleTrade): void {
    const { marketId } = trade;
    const scale = this.#scales.get(marketId) ?? noScale;
    for (const { seconds: periodSeconds } of candleIntervals) {
      const key = keyOf({ marketId, periodSeconds });
      const candle = addToCandle(this.#newest.get(key), trade, periodSeconds, scale);
      this.#newest.set(key, candle);
      this.#candles.set(`${candle.firstTrade} ${periodSeconds}`, candle);
    }
  }

  #add(row: PastTradeRow): void {
    this.#trades.push(row);
    addRowTo(this.#sums, pastTradeRows, row);
  }
}

/**
 * The trades before those that are kept, in the order in which they go. The newest of each market stays, because past
 * books have it as their last trade.
 */
class OldTrades {
  /** Found by its time; undefined: not yet. */
  #oldest: OldestKept | undefined;
  /** Trades before this id are dropped, but for the newest of each market. */
  #reached = 0n;
  #isBehind = true;
  readonly #newest = new Map<string, PastTradeRow>();

  isDue(beforeNs: bigint): boolean {
    return this.#isBehind || this.#oldest === undefined || this.#oldest.timeNs < beforeNs;
  }

  /**
   * The oldest block whose trades are kept, and the trades to drop among the next `examinedMax`. Until `drop` is called,
   * it finds the same trades again.
   */
  async find(connection: Connection, beforeNs: bigint, examinedMax: number) {
    this.#isBehind = true;
    const oldest = await this.#findOldest(connection, beforeNs);
    const found = await connection.query<PastTradeRow>(
      `${pastTradeRows.select} WHERE id >= ? AND id < ? ORDER BY id LIMIT ${examinedMax}`,
      [this.#reached, firstIdOfBlock(oldest.height)],
    );
    const trades: PastTradeRow[] = [];
    const newest = new Map<string, PastTradeRow>();
    for (const trade of found) {
      const before = newest.get(trade.marketId) ?? this.#newest.get(trade.marketId);
      if (before !== undefined) trades.push(before);
      newest.set(trade.marketId, trade);
    }
    const drop = () => {
      this.#isBehind = found.length === examinedMax;
      for (const [marketId, trade] of newest) this.#newest.set(marketId, trade);
      const last = found.at(-1);
      if (last !== undefined) this.#reached = last.id + 1n;
    };
    return { oldest, trades, drop };
  }

  async #findOldest(connection: Connection, beforeNs: bigint): Promise<OldestKept> {
    if (this.#oldest !== undefined && this.#oldest.timeNs >= beforeNs) return this.#oldest;
    const [block] = await connection.query<{ height: bigint; timeNs: bigint; first: bigint }>(
      `SELECT height, time_ns AS timeNs, (SELECT MIN(height) FROM block) AS first
       FROM block WHERE time_ns >= ? ORDER BY time_ns, height LIMIT 1`,
      [beforeNs],
    );
    if (block === undefined) return everythingKept;
    const { height, timeNs, first } = block;
    // With no block before it there is nothing to drop.
    this.#oldest = { height: height === first ? 0n : height, timeNs };
    return this.#oldest;
  }
}

/** The sum of both rows of the progress. */
function setProgress(sums: PastSums, progress: TradeProgress): void {
  const { table, values } = tradeProgressRows;
  if (sums.has(table)) sums.set(table, sumOf(tradeProgressRows, toTradeProgressRows(progress).map(values)));
}

function keyOf({ marketId, periodSeconds }: Pick<Candle, "marketId" | "periodSeconds">): string {
  return `${periodSeconds} ${marketId}`;
}
