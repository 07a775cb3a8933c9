import { bundleRows, signatureRows } from "./bundle-table.js";
import { depthRows, levelRows, liveOrderRows } from "./depth-table.js";
import type { Parameter } from "./driver-connection.js";
import { marketDataRows, marketRows } from "./market-table.js";
import { progressRows } from "./progress-table.js";
import { rowText, type TableRows } from "./table-rows.js";
import { tradeRows } from "./trade-table.js";
import { venueMarketRows } from "./venue-market-table.js";

/**
 * Every table of which the loader keeps a row in `table_digest`: those whose rows change, and those whose rows belong to
 * no block. `retain` keeps that of `ledger_retention`.
 */
export const digestedTables: readonly Pick<TableRows<never>, "table" | "columns" | "keyColumns">[] = [
  progressRows,
  marketRows,
  marketDataRows,
  depthRows,
  levelRows,
  liveOrderRows,
  tradeRows,
  venueMarketRows,
  bundleRows,
  signatureRows,
];

/** Whether a loader has written digests of tables. */
export function hasTableDigests(digests: ReadonlyMap<string, unknown>): boolean {
  return digestedTables.some(({ table }) => digests.has(table));
}

/** The place of a row, its `changed_sequence`; 0 in a table without. */
export function placeOf({ columns }: Pick<TableRows<never>, "columns">, values: readonly Parameter[]): bigint {
  const place = values[columns.indexOf("changed_sequence")];
  return typeof place === "bigint" ? place : 0n;
}

/** The primary key of a row, as text. */
export function keyOf({ keyColumns }: Pick<TableRows<never>, "keyColumns">, values: readonly Parameter[]): string {
  return rowText(values.slice(0, keyColumns));
}
