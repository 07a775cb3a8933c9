import { loadRows } from "./bulk-load.js";
import type { Connection } from "./driver-connection.js";
import { rowText, type TableRows } from "./table-rows.js";
import { insert } from "./upsert.js";

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

/** Every account. */
export function readAccounts(connection: Connection): Promise<AccountRow[]> {
  return connection.query<{ [K in keyof AccountRow]: AccountRow[K] }>(
    `SELECT account_id AS accountId, party_id AS partyId, asset_id AS assetId, market_id AS marketId, type
     FROM account ORDER BY account_id`,
  );
}

/** Every class of entries. */
export function readEntryClasses(connection: Connection): Promise<EntryClassRow[]> {
  return connection.query<{ [K in keyof EntryClassRow]: EntryClassRow[K] }>(
    `SELECT class_id AS classId, from_asset_id AS fromAssetId, from_market_id AS fromMarketId, from_type AS fromType,
       to_asset_id AS toAssetId, to_market_id AS toMarketId, to_type AS toType, transfer_type AS transferType
     FROM entry_class ORDER BY class_id`,
  );
}

export const accountRows: TableRows<AccountRow> = {
  table: "account",
  columns: ["account_id", "party_id", "asset_id", "market_id", "type"],
  keyColumns: 1,
  values: (row) => [row.accountId, row.partyId, row.assetId, row.marketId, row.type],
};

export const entryClassRows: TableRows<EntryClassRow> = {
  table: "entry_class",
  columns: [
    "class_id",
    "from_asset_id",
    "from_market_id",
    "from_type",
    "to_asset_id",
    "to_market_id",
    "to_type",
    "transfer_type",
  ],
  keyColumns: 1,
  values: (row) => [
    row.classId,
    row.fromAssetId,
    row.fromMarketId,
    row.fromType,
    row.toAssetId,
    row.toMarketId,
    row.toType,
    row.transferType,
  ],
};

/** Inserts new accounts in statements of many rows. */
export async function insertAccounts(connection: Connection, rows: readonly AccountRow[]): Promise<void> {
  await insert(connection, accountRows.table, accountRows.columns, rows.map(accountRows.values));
}

/** Loads new accounts with LOAD DATA. @throws Error unless each row was stored unchanged */
export async function loadAccounts(connection: Connection, rows: readonly AccountRow[]): Promise<void> {
  // Identifiers are printable ASCII: neither a tab nor a line feed is among their characters.
  const lines = rows.map((row) => `${rowText(accountRows.values(row))}\n`);
  const text = { bytes: Buffer.from(lines.join(""), "latin1"), rows: rows.length };
  await loadRows(connection, accountRows.table, accountRows.columns.join(", "), text);
}

/** Stores new classes of entries. */
export async function writeEntryClasses(connection: Connection, rows: readonly EntryClassRow[]): Promise<void> {
  await insert(connection, entryClassRows.table, entryClassRows.columns, rows.map(entryClassRows.values));
}
