import type { Candle } from "../domain/candle.js";
import { candleRows } from "./candle-table.js";
import { asText } from "./connection/column.js";
import type { Connection } from "./connection/connection.js";
import { type PastTradeRow, pastTradeRows } from "./history-table.js";
import type { OldestKept } from "./ledger-entry-table.js";
import type { StatementRunner } from "./statement-group.js";
import { type RowSum, writeTableDigests } from "./table-digest-table.js";
import { insertRows, type TableRows, writeRows } from "./table-rows.js";

/** Which trades a store has: all of the blocks from the oldest on, up to an event. */
export interface TradeProgress {
  readonly streamSequence: bigint;
  /** Height 0: those of every block. */
  readonly oldest: OldestKept;
}

/** The one row. */
export const tradeProgressRows: TableRows<TradeProgress> = {
  table: "trade_progress",
  columns: ["id", "stream_sequence", "oldest_height", "oldest_time_ns"],
  keyColumns: 1,
  values: ({ streamSequence, oldest }) => [1, streamSequence, oldest.height, oldest.timeNs],
};

/** The row as one value of a statement, for {@link parseTradeProgress}. */
export const tradeProgressSql = asText(
  "(SELECT CONCAT_WS(' ', stream_sequence, oldest_height, oldest_time_ns) FROM trade_progress WHERE id = 1)",
);

/** Undefined: no program that keeps trades has loaded. */
export function parseTradeProgress(text: string | null | undefined): TradeProgress | undefined {
  if (text == null) return undefined;
  const [streamSequence = "", height = "", timeNs = ""] = text.split(" ");
  return { streamSequence: BigInt(streamSequence), oldest: { height: BigInt(height), timeNs: BigInt(timeNs) } };
}

export async function readTradeProgress(connection: Pick<Connection, "query">): Promise<TradeProgress | undefined> {
  const [row] = await connection.query<{ progress: string | null }>(`SELECT ${tradeProgressSql} AS progress`);
  return parseTradeProgress(row?.progress);
}

/** The trades of a batch of blocks. */
export interface TradeBatch {
  readonly trades: readonly PastTradeRow[];
  /** Those that it changes, as they are with it. */
  readonly candles: readonly Candle[];
  readonly progress: TradeProgress;
  /** What the tables add up to with the batch, by their names. */
  readonly sums: ReadonlyMap<string, RowSum>;
}

export async function writeTrades(connection: StatementRunner, batch: TradeBatch): Promise<void> {
  await insertRows(connection, pastTradeRows, batch.trades);
  await writeRows(connection, candleRows, batch.candles);
  await writeRows(connection, tradeProgressRows, [batch.progress]);
  await writeTableDigests(connection, batch.sums, "history_digest");
}
