import { entryId } from "../domain/block-position.js";
import { Failure } from "../domain/failure.js";
import { OperatorError } from "../domain/operator-error.js";
import { asText } from "./connection/column.js";
import type { Connection } from "./connection/connection.js";
import { groupConcatBytesMax } from "./connection/driver-options.js";
import type { StatementRunner } from "./statement-group.js";
import { addSum, noRows, readTableDigests, sumOf, writeTableDigests } from "./table-digest-table.js";
import { loadRows, type RowText, readRows, type TableRows, writeRows } from "./table-rows.js";

/** Rows of one INSERT if LOAD DATA LOCAL is refused. */
export const ledgerRowsPerInsert = 1_000;

const columns = "id, from_account, to_account, class_id, transfer_type, time_ns, quantity, from_balance, to_balance";

const lineFeed = 0x0a;

/** Most bytes of an entry as text. */
const entryTextBytesMax = 512;

/** Entries in one text at most; a server sends it in one packet. */
export const entriesPerText = groupConcatBytesMax / entryTextBytesMax;

/** The entries of a range of ids. */
export interface EntriesText {
  readonly entries: bigint;
  /** The text that they were loaded from; if there are more than {@link entriesPerText}, the first of it. */
  readonly text: Uint8Array;
  /** The oldest block whose entries are kept, seen by the same statement. */
  readonly oldest: OldestKept;
}

/**
 * Reads the entries of a range of ids, ends included.
 * @throws OperatorError if the server cut their text
 */
export async function readEntries(connection: Connection, low: bigint, high: bigint): Promise<EntriesText> {
  const [row] = await connection.query<{ entries: bigint; text: Uint8Array | null; kept: string }>(
    `SELECT COUNT(*) AS entries, ${oldestKeptSql} AS kept,
       CAST(GROUP_CONCAT(CONCAT_WS('\\t', ${columns}), '\\n' SEPARATOR '') AS BINARY) AS text
     FROM ledger_entry FORCE INDEX (PRIMARY) WHERE id >= ${low} AND id <= ${high}`,
  );
  const { entries = 0n, kept = "", text } = row ?? {};
  const whole = text ?? new Uint8Array();
  if (entries <= entriesPerText && countLines(whole) < entries) {
    throw new OperatorError(
      `the database server cut the text of ${entries} ledger entries at ${whole.length} bytes: set its max_allowed_packet to ${groupConcatBytesMax} or more`,
    );
  }
  const [height = "", timeNs = ""] = kept.split(" ");
  return { entries, text: whole, oldest: parseOldestKept(height, timeNs) };
}

/** The number of lines; -1 if the last one has no end. */
function countLines(text: Uint8Array): number {
  if (text.length > 0 && text.at(-1) !== lineFeed) return -1;
  let lines = 0;
  for (let at = text.indexOf(lineFeed); at >= 0; at = text.indexOf(lineFeed, at + 1)) lines++;
  return lines;
}

/** The text of a block's entries, of which there are `positions`. */
export async function readEntryText(connection: Connection, height: bigint, positions: number): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for (let position = 0; position < positions; position += entriesPerText) {
    const low = entryId(height, position);
    const high = low + BigInt(Math.min(entriesPerText, positions - position)) - 1n;
    const { text } = await readEntries(connection, low, high);
    parts.push(text);
  }
  return Buffer.concat(parts);
}

/** Loads new entries, of digits only, the fast way. @throws Error unless each row was stored as it is */
export function loadLedgerEntries(connection: Connection, text: RowText): Promise<void> {
  return loadRows(connection, "ledger_entry", columns, text);
}

/** Inserts new entries in statements of many rows. */
export async function insertLedgerEntries(connection: StatementRunner, text: RowText): Promise<void> {
  const lines = text.bytes.toString("latin1").split("\n");
  for (let at = 0; at < text.rows; at += ledgerRowsPerInsert) {
    // Values are digits only. Quoted, because a literal number of 78 digits would be cut.
    const values = lines.slice(at, Math.min(at + ledgerRowsPerInsert, text.rows)).map((line) => {
      return `('${line.replaceAll("\t", "','")}')`;
    });
    await connection.run(`INSERT INTO ledger_entry (${columns}) VALUES ${values.join(",")}`);
  }
}

/** The oldest block whose ledger entries are kept. */
export interface OldestKept {
  readonly height: bigint;
  readonly timeNs: bigint;
}

/** No entry was ever dropped. */
export const everythingKept: OldestKept = { height: 0n, timeNs: 0n };

/** FAILED_PRECONDITION for what reaches before the oldest block of which rows are kept. */
export function notRetained(what: string, rows: string, { height, timeNs }: OldestKept, reason: string): Failure {
  const message = `${what} reaches before block ${height}, the oldest whose ${rows} are kept; begin at its time, ${timeNs}, or later`;
  const reasonMetadata = { nearest_height: String(height), nearest_timestamp: String(timeNs) };
  return new Failure("failed_precondition", message, { reason, reasonMetadata });
}

/** The oldest block that is kept, as one value of a statement: for {@link parseOldestKept}. */
export const oldestKeptSql = asText(
  "COALESCE((SELECT CONCAT_WS(' ', oldest_height, oldest_time_ns) FROM ledger_retention WHERE id = 1), '0 0')",
);

/** Reads the two words of {@link oldestKeptSql}. */
export function parseOldestKept(height: string, timeNs: string): OldestKept {
  return { height: BigInt(height), timeNs: BigInt(timeNs) };
}

export async function readOldestKept(connection: Connection): Promise<OldestKept> {
  const [row] = await connection.query<{ kept: string }>(`SELECT ${oldestKeptSql} AS kept`);
  const [height = "0", timeNs = "0"] = (row?.kept ?? "").split(" ");
  return parseOldestKept(height, timeNs);
}

/** The one row. Its digest is written with it, and not by the loader. */
export const retentionRows: TableRows<OldestKept> = {
  table: "ledger_retention",
  columns: ["id", "oldest_height", "oldest_time_ns"],
  keyColumns: 1,
  values: ({ height, timeNs }) => [1, height, timeNs],
};

/**
 * Says that entries before a block may go, unless a later block is the oldest already. Run it in a transaction that has
 * locked the progress.
 */
export async function moveOldestKept(connection: Connection, oldest: OldestKept): Promise<void> {
  if ((await readOldestKept(connection)).height >= oldest.height) return;
  const { table } = retentionRows;
  let sum = (await readTableDigests(connection)).get(table) ?? noRows;
  // Not what the rows add up to: a row that was changed by others stays wrong.
  sum = addSum(sum, sumOf(retentionRows, await readRows(connection, retentionRows)), -1n);
  sum = addSum(sum, sumOf(retentionRows, [retentionRows.values(oldest)]));
  await writeRows(connection, retentionRows, [oldest]);
  await writeTableDigests(connection, new Map([[table, sum]]));
}
