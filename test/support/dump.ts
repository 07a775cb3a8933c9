import { createHash } from "node:crypto";
import { type Database, openDatabase } from "../../src/store/database.js";

/** Every table that the loader writes, in the order of its primary key. */
export const storeTables = {
  progress: "id",
  block: "height",
  market: "market_id",
  market_data: "market_id",
  asset: "asset_id",
  market_depth: "market_id",
  price_level: "market_id, side, price",
  live_order: "order_id",
  last_trade: "market_id",
  venue_market: "market_id",
  account: "account_id",
  entry_class: "class_id",
  ledger_entry: "id",
  signer_removed_bundle: "signature_id",
  node_signature: "signature_id, signature",
  table_digest: "table_name",
  book_segment: "market_id, first_sequence",
  book_segment_part: "market_id, first_sequence, part",
  book_change: "market_id, stream_sequence",
  book_history: "market_id",
  trade: "id",
  trade_progress: "id",
  candle: "market_id, period_seconds, start_ns, first_trade",
  history_digest: "table_name",
} as const;

/**
 * The whole store, a line per table: its rows and a digest of all their values but the store's own random name. Equal
 * dumps, equal rows.
 */
export async function dump(url: string): Promise<string[]> {
  const database = openDatabase(url, { connectionsMax: 1 });
  try {
    const lines: string[] = [];
    for (const [table, key] of Object.entries(storeTables)) {
      const rows = await database.query(`SELECT * FROM ${table} ORDER BY ${key}`);
      const digest = createHash("sha256");
      for (const { store_id: _, ...row } of rows) digest.update(JSON.stringify(row, plain)).update("\n");
      lines.push(`${table}: ${rows.length} rows ${digest.digest("hex")}`);
    }
    return lines;
  } finally {
    await database.close();
  }
}

/** Deletes what a loader wrote: sooner done than to make another database. */
export function emptyStore(store: Database): Promise<void> {
  return store.withConnection(async (connection) => {
    for (const table of Object.keys(storeTables)) await connection.run(`DELETE FROM ${table}`);
  });
}

function plain(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return `${value}`;
  return value instanceof Uint8Array ? Buffer.from(value).toString("hex") : value;
}
