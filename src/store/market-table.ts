import type { Connection } from "./driver-connection.js";
import type { TableRows } from "./table-rows.js";
import { upsertRows } from "./upsert.js";

/** A market or its market data as protobuf bytes. */
export interface KeptWhole {
  readonly marketId: string;
  /** The stream sequence number of the end_block that last changed it. */
  readonly changedSequence: bigint;
  readonly body: Uint8Array;
}

function keptWholeRows(table: "market" | "market_data"): TableRows<KeptWhole> {
  return {
    table,
    columns: ["market_id", "changed_sequence", "body"],
    keyColumns: 1,
    values: (row) => [row.marketId, row.changedSequence, row.body],
  };
}

export const marketRows = keptWholeRows("market");

export const marketDataRows = keptWholeRows("market_data");

/** Stores the newest bytes of each market, in `market` or `market_data`. */
export async function writeKeptWhole(
  connection: Connection,
  table: TableRows<KeptWhole>,
  rows: readonly KeptWhole[],
): Promise<void> {
  await upsertRows(connection, table, rows);
}
