import { Readable } from "node:stream";
import { OperatorError } from "../domain/operator-error.js";
import { databaseErrorNumber, toDatabaseFailure } from "./database-error.js";
import type { Connection } from "./driver-connection.js";

/** Bytes of one packet to the server during a load. */
export const loadPacketBytes = 256 * 1024;

/** Fewer rows are inserted: that is one round trip instead of two. */
export const rowsWorthLoading = 20;

/**
 * Rows as text: columns separated by tabs, rows ended by line feeds. Nothing is escaped, because values contain
 * neither.
 */
export interface RowText {
  readonly bytes: Uint8Array;
  readonly rows: number;
}

/**
 * Error numbers that refuse LOAD DATA LOCAL: 1148 (MariaDB), 3948 and 2068 (MySQL), 4166 (MariaDB 10.5 and later), 1235
 * (proxies).
 */
const localInfileRefused: ReadonlySet<number> = new Set([1148, 1235, 2068, 3948, 4166]);

/** Whether the server refuses LOAD DATA LOCAL. */
export function isLocalInfileRefused(error: unknown): boolean {
  return localInfileRefused.has(databaseErrorNumber(error) ?? 0);
}

/**
 * Loads new rows with LOAD DATA LOCAL. The connection must allow it (`openWriter`).
 * @throws OperatorError unless each row was stored unchanged; LOCAL otherwise skips and cuts without an error
 */
export async function loadRows(connection: Connection, table: string, columns: string, text: RowText): Promise<void> {
  const sql = `LOAD DATA LOCAL INFILE '${table}' INTO TABLE ${table} CHARACTER SET binary
  FIELDS TERMINATED BY '\\t' ENCLOSED BY '' ESCAPED BY '' LINES TERMINATED BY '\\n' (${columns})`;
  const infileStreamFactory = (): Readable => Readable.from(packets(text.bytes));
  let outcome: { affectedRows: number; warningStatus: number; info: string };
  try {
    const [response] = await connection.driver.query({ sql, infileStreamFactory });
    outcome = response as typeof outcome;
  } catch (error) {
    throw toDatabaseFailure(error);
  }
  if (outcome.affectedRows === text.rows && outcome.warningStatus === 0) return;
  throw new OperatorError(
    `the server stored ${outcome.affectedRows} of ${text.rows} rows of ${table}: ${outcome.info}`,
  );
}

function* packets(bytes: Uint8Array): Generator<Buffer> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < buffer.length; at += loadPacketBytes) yield buffer.subarray(at, at + loadPacketBytes);
}
