import { entryId } from "../domain/block-position.js";
import { loadRows, type RowText } from "./bulk-load.js";
import type { Connection } from "./driver-connection.js";
import { oldestKeptSql } from "./ledger-retention-table.js";

/** Rows of one INSERT if LOAD DATA LOCAL is refused. */
export const ledgerRowsPerInsert = 1_000;

/** Rows of `ledger_entry` as text, of digits only. */
export type LedgerText = RowText;

const columns = "id, from_account, to_account, class_id, transfer_type, time_ns, quantity, from_balance, to_balance";

/** Most bytes of an entry as text. */
const entryTextBytesMax = 512;

/** Entries in one text at most: some MB, which a server sends in one packet. */
export const entriesPerText = 8_192;

/** Lets a connection read {@link entryTextSql}. */
export const entryTextSetting = `SET SESSION group_concat_max_len = ${entriesPerText * entryTextBytesMax}`;

/**
 * The entries of a range of ids, ends included: how many they are, of {@link entriesPerText} at most the text that they
 * were loaded from but for its last line feed, and which is the oldest block whose entries are kept.
 */
export function entryTextSql(low: bigint, high: bigint): string {
  return `SELECT COUNT(*) AS entries, GROUP_CONCAT(CONCAT_WS('\\t', ${columns}) SEPARATOR '\\n') AS text,
      ${oldestKeptSql} AS kept
    FROM ledger_entry FORCE INDEX (PRIMARY) WHERE id >= ${low} AND id <= ${high}`;
}

/** What {@link entryTextSql} gives. */
export interface EntryText {
  readonly entries: bigint;
  /** Null: there are none. */
  readonly text: Uint8Array | null;
  /** For {@link parseOldestKept}. */
  readonly kept: string;
}

/** The text of a block's entries, of which there are `positions`. */
export async function readEntryText(connection: Connection, height: bigint, positions: number): Promise<Buffer> {
  await connection.run(entryTextSetting);
  const parts: Uint8Array[] = [];
  for (let position = 0; position < positions; position += entriesPerText) {
    const low = entryId(height, position);
    const high = low + BigInt(Math.min(entriesPerText, positions - position)) - 1n;
    const [row] = await connection.query<{ [K in keyof EntryText]: EntryText[K] }>(entryTextSql(low, high));
    if (row !== undefined && row.text !== null) parts.push(row.text, Buffer.from("\n"));
  }
  return Buffer.concat(parts);
}

/** Loads new entries the fast way. @throws Error unless each row was stored as it is */
export function loadLedgerEntries(connection: Connection, text: LedgerText): Promise<void> {
  return loadRows(connection, "ledger_entry", columns, text);
}

/** Inserts new entries in statements of many rows. */
export async function insertLedgerEntries(connection: Connection, text: LedgerText): Promise<void> {
  const lines = Buffer.from(text.bytes.buffer, text.bytes.byteOffset, text.bytes.byteLength)
    .toString("latin1")
    .split("\n");
  for (let at = 0; at < text.rows; at += ledgerRowsPerInsert) {
    // Values are digits only. Quoted, because a literal number of 78 digits would be cut.
    const values = lines.slice(at, Math.min(at + ledgerRowsPerInsert, text.rows)).map((line) => {
      return `('${line.replaceAll("\t", "','")}')`;
    });
    await connection.run(`INSERT INTO ledger_entry (${columns}) VALUES ${values.join(",")}`);
  }
}
