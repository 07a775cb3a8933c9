import type { Candle } from "../domain/candle.js";
import { candleRows } from "./candle-table.js";
import { asText } from "./connection/column.js";
import type { Connection } from "./connection/connection.js";
import { type PastTradeRow, pastTradeRows } from "./history-table.js";
import { type OldestKept, parseOldestKept } from "./ledger-entry-table.js";
import type { StatementRunner } from "./statement-group.js";
import { type RowSum, writeTableDigests } from "./table-digest-table.js";
import { insertRows, partsOf, type TableRows, writeRows } from "./table-rows.js";

/** Which trades and candles a store has: all of the blocks from the oldest on, up to an event. */
export interface TradeProgress {
  readonly streamSequence: bigint;
  /** Height 0: those of every block. */
  readonly oldest: OldestKept;
  /** Of candles. Those of a block go with its trades; all others stay. */
  readonly oldestOfCandles: OldestKept;
}

/** A row: 1 is of trades, 2 of candles. */
interface TradeProgressRow {
  readonly id: 1 | 2;
  readonly streamSequence: bigint;
  readonly oldest: OldestKept;
}

export const tradeProgressRows: TableRows<TradeProgressRow> = {
  table: "trade_progress",
  columns: ["id", "stream_sequence", "oldest_height", "oldest_time_ns"],
  keyColumns: 1,
  values: ({ id, streamSequence, oldest }) => [id, streamSequence, oldest.height, oldest.timeNs],
};

export function toTradeProgressRows(progress: TradeProgress): readonly TradeProgressRow[] {
  const { streamSequence, oldest, oldestOfCandles } = progress;
  return [
    { id: 1, streamSequence, oldest },
    { id: 2, streamSequence, oldest: oldestOfCandles },
  ];
}

/** The rows as one value of a statement, for {@link parseTradeProgress}. */
export const tradeProgressSql = asText(
  `(SELECT CONCAT_WS(' ', stream_sequence, oldest_height, oldest_time_ns,
     (SELECT CONCAT_WS(' ', oldest_height, oldest_time_ns) FROM trade_progress WHERE id = 2))
   FROM trade_progress WHERE id = 1)`,
);

/** Undefined: no program that keeps trades has loaded. */
export function parseTradeProgress(text: string | null | undefined): TradeProgress | undefined {
  if (text == null) return undefined;
  // A loader that dropped no trades yet may have left the first row alone.
  const [streamSequence = "", height = "", timeNs = "", candleHeight = height, candleTimeNs = timeNs] = text.split(" ");
  return {
    streamSequence: BigInt(streamSequence),
    oldest: parseOldestKept(height, timeNs),
    oldestOfCandles: parseOldestKept(candleHeight, candleTimeNs),
  };
}

export async function readTradeProgress(connection: Connection): Promise<TradeProgress | undefined> {
  const [row] = await connection.query<{ progress: string | null }>(`SELECT ${tradeProgressSql} AS progress`);
  return parseTradeProgress(row?.progress);
}

/** The trades of a batch of blocks. */
export interface TradeBatch {
  readonly trades: readonly PastTradeRow[];
  /** Those that it changes, as they are with it. */
  readonly candles: readonly Candle[];
  progress: TradeProgress;
  /** What the tables add up to with the batch, by their names. */
  readonly sums: Map<string, RowSum>;
  /** Old trades that it drops, once that was worked out. */
  dropped?: readonly bigint[];
}

/** Writes the trades of a batch. {@link writeTradeProgress} follows. */
export async function writeTrades(connection: StatementRunner, { trades, candles }: TradeBatch): Promise<void> {
  await insertRows(connection, pastTradeRows, trades);
  await writeRows(connection, candleRows, candles);
}

/** Says which trades there are with a batch. */
export async function writeTradeProgress(connection: StatementRunner, { progress, sums }: TradeBatch): Promise<void> {
  await writeRows(connection, tradeProgressRows, toTradeProgressRows(progress));
  await writeTableDigests(connection, sums, "history_digest");
}

/** Joins the candles of a block with the trades that they begin with, of a list. */
const joinsFirstTrades = `JOIN (SELECT id AS trade_id, market_id AS trade_market, time_ns AS trade_ns FROM trade WHERE id IN (?)) AS t
  ON candle.market_id = trade_market AND period_seconds = 0 AND start_ns = trade_ns AND first_trade = t.trade_id`;

/** The candles of a block that begin with one of these trades. */
export async function readCandlesOfTrades(connection: Connection, ids: readonly bigint[]): Promise<Candle[]> {
  const candles: Candle[] = [];
  for (const part of partsOf(ids)) {
    candles.push(...(await connection.query<Candle>(`${candleRows.select} ${joinsFirstTrades}`, [part])));
  }
  return candles;
}

/** Drops trades, and the candles of a block that begin with them. */
export async function dropTrades(connection: StatementRunner, ids: readonly bigint[]): Promise<void> {
  for (const part of partsOf(ids)) {
    await connection.run(`DELETE candle FROM candle ${joinsFirstTrades}`, [part]);
    await connection.run("DELETE FROM trade WHERE id IN (?)", [part]);
  }
}
