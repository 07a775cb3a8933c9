import type { Connection } from "./connection/connection.js";
import { loadRows, rowTable, rowText } from "./table-rows.js";

/** An account and its number. */
export interface AccountRow {
  readonly accountId: number;
  /** `network` if the network names no owner. */
  readonly partyId: string;
  readonly assetId: string;
  /** Empty: no market. */
  readonly marketId: string;
  readonly type: number;
}

/** A class of entries and its number. */
export interface EntryClassRow {
  readonly classId: number;
  readonly fromAssetId: string;
  readonly fromMarketId: string;
  readonly fromType: number;
  readonly toAssetId: string;
  readonly toMarketId: string;
  readonly toType: number;
  readonly transferType: number;
}

export const accountRows = rowTable<AccountRow>("account", 1, ["accountId", "partyId", "assetId", "marketId", "type"]);

export const entryClassRows = rowTable<EntryClassRow>("entry_class", 1, [
  "classId",
  "fromAssetId",
  "fromMarketId",
  "fromType",
  "toAssetId",
  "toMarketId",
  "toType",
  "transferType",
]);

/** Every account. */
export function readAccounts(connection: Connection): Promise<AccountRow[]> {
  return connection.query<AccountRow>(`${accountRows.select} ORDER BY account_id`);
}

/** Every class of entries. */
export function readEntryClasses(connection: Connection): Promise<EntryClassRow[]> {
  return connection.query<EntryClassRow>(`${entryClassRows.select} ORDER BY class_id`);
}

/** Loads new accounts with LOAD DATA. @throws Error unless each row was stored unchanged */
export async function loadAccounts(connection: Connection, rows: readonly AccountRow[]): Promise<void> {
  // Identifiers are printable ASCII: neither a tab nor a line feed is among their characters.
  const lines = rows.map((row) => `${rowText(accountRows.values(row))}\n`);
  const text = { bytes: Buffer.from(lines.join(""), "latin1"), rows: rows.length };
  await loadRows(connection, accountRows.table, accountRows.columns.join(", "), text);
}
