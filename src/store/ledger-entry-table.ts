import { loadRows, type RowText } from "./bulk-load.js";
import type { Connection } from "./database.js";

/** Rows of one INSERT where LOAD DATA LOCAL is forbidden. */
export const ledgerRowsPerInsert = 1_000;

/** Rows of `ledger_entry` as text, of digits only. */
export type LedgerText = RowText;

const columns = "id, from_account, to_account, class_id, transfer_type, time_ns, quantity, from_balance, to_balance";

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
    // Digits only, by the contract of the text; quoted, for a literal number of 78 digits would be cut.
    const values = lines.slice(at, Math.min(at + ledgerRowsPerInsert, text.rows)).map((line) => {
      return `('${line.replaceAll("\t", "','")}')`;
    });
    await connection.run(`INSERT INTO ledger_entry (${columns}) VALUES ${values.join(",")}`);
  }
}
