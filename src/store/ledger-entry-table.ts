import { Readable } from "node:stream";
import type { Connection } from "./database.js";
import { databaseErrorNumber, toDatabaseFailure } from "./database-error.js";

/** Bytes in one packet to the server while it loads. */
export const loadPacketBytes = 256 * 1024;

/** Rows of one INSERT where LOAD DATA LOCAL is forbidden. */
export const ledgerRowsPerInsert = 1_000;

/** Rows of `ledger_entry` as text: columns between tabs, a line feed after each row, digits only. */
export interface LedgerText {
  readonly bytes: Uint8Array;
  readonly rows: number;
}

const columns = "id, from_account, to_account, class_id, transfer_type, time_ns, quantity, from_balance, to_balance";

const loadStatement = `LOAD DATA LOCAL INFILE 'ledger_entry' INTO TABLE ledger_entry CHARACTER SET binary
  FIELDS TERMINATED BY '\\t' ENCLOSED BY '' ESCAPED BY '' LINES TERMINATED BY '\\n' (${columns})`;

/** LOAD DATA LOCAL refused: 1148 (MariaDB), 3948 and 2068 (MySQL), 4166 (MariaDB 10.5 and later), 1235 (proxies). */
const localInfileRefused: ReadonlySet<number> = new Set([1148, 1235, 2068, 3948, 4166]);

/** Whether the server does not take LOAD DATA LOCAL. */
export function isLocalInfileRefused(error: unknown): boolean {
  return localInfileRefused.has(databaseErrorNumber(error) ?? 0);
}

/**
 * Loads new entries the fast way. The connection must allow it (`openWriter`).
 * @throws Error unless each row was stored as it is; LOCAL would otherwise skip and cut without an error
 */
export async function loadLedgerEntries(connection: Connection, text: LedgerText): Promise<void> {
  const stream = (): Readable => Readable.from(packets(text.bytes));
  let outcome: { affectedRows: number; warningStatus: number; info: string };
  try {
    const [answer] = await connection.driver.query({ sql: loadStatement, infileStreamFactory: stream });
    outcome = answer as typeof outcome;
  } catch (error) {
    throw toDatabaseFailure(error);
  }
  if (outcome.affectedRows === text.rows && outcome.warningStatus === 0) return;
  throw new Error(`the server stored ${outcome.affectedRows} of ${text.rows} ledger entries: ${outcome.info}`);
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

function* packets(bytes: Uint8Array): Generator<Buffer> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < buffer.length; at += loadPacketBytes) yield buffer.subarray(at, at + loadPacketBytes);
}
