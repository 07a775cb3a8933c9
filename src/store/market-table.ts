import type { Connection } from "./database.js";
import { upsert } from "./upsert.js";

/** A market or its market data as protobuf bytes. */
export interface KeptWhole {
  readonly marketId: string;
  /** Of the end_block of the block that last changed it. */
  readonly changedSequence: bigint;
  readonly body: Uint8Array;
}

/** Stores the newest bytes of each market, in `market` or `market_data`. */
export async function writeKeptWhole(
  connection: Connection,
  table: "market" | "market_data",
  rows: readonly KeptWhole[],
): Promise<void> {
  await upsert(
    connection,
    table,
    ["market_id", "changed_sequence", "body"],
    rows.map((row) => [row.marketId, row.changedSequence, row.body]),
  );
}
