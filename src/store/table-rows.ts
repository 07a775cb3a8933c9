import { Readable } from "node:stream";
import { OperatorError } from "../domain/operator-error.js";
import type { ColumnValue } from "./connection/column.js";
import type { Connection, Parameter } from "./connection/connection.js";
import { databaseErrorNumber, toDatabaseFailure } from "./connection/database-error.js";
import type { StatementRunner } from "./statement-group.js";

/** A table and its columns, in the order in which rows are read and written, the primary key first. */
export interface Table {
  readonly table: string;
  readonly columns: readonly string[];
  /** How many columns are the primary key. */
  readonly keyColumns: number;
  /** Of two rows with one key, the first stays. Default: the last one does. */
  readonly keepsFirst?: boolean;
}

/** How rows of a table are written. */
export interface TableRows<R> extends Table {
  /** The values of a row, in the order of the columns. */
  readonly values: (row: R) => readonly Parameter[];
}

/** A table whose columns are the properties of its rows, in snake case: `marketId` is `market_id`. */
export interface RowTable<R> extends TableRows<R> {
  /** `SELECT … FROM` the table, with each column under the name of its property. */
  readonly select: string;
}

/** Undefined is written as NULL, and a boolean as 1 or 0. */
export function rowTable<R extends { readonly [K in keyof R]: Parameter | undefined }>(
  table: string,
  keyColumns: number,
  properties: readonly (keyof R & string)[],
): RowTable<R> {
  const columns = properties.map((name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));
  return {
    table,
    columns,
    keyColumns,
    values: (row) => properties.map((name) => toParameter(row[name])),
    select: `SELECT ${columns.map((column, i) => `${column} AS ${properties[i]}`).join(", ")} FROM ${table}`,
  };
}

function toParameter(value: Parameter | undefined): Parameter {
  if (value === undefined) return null;
  return typeof value === "boolean" ? Number(value) : value;
}

/** A value as text: the same for what is written and for what is read back. */
function text(value: Parameter | undefined): string {
  return value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : String(value);
}

/** Values of a row as text, with tabs between. */
export function rowText(values: readonly Parameter[]): string {
  return values.map(text).join("\t");
}

/** Every row of a table, as values in the order of its columns. */
export async function readRows(connection: Connection, { table, columns }: Table): Promise<Parameter[][]> {
  const rows = await connection.query(`SELECT ${columns.join(", ")} FROM ${table}`);
  return rows.map((row) => columns.map((name) => row[name] ?? null));
}

/** The rows of a table in the order of its first column, a number, in parts of up to `rowsMax`. */
export async function* readInOrder<R extends { [K in keyof R]: ColumnValue }>(
  connection: Connection,
  { select, columns: [number = ""] }: Pick<RowTable<never>, "select" | "columns">,
  rowsMax: number,
  first = 0n,
  last = 2n ** 64n - 1n,
): AsyncGenerator<R[]> {
  for (let next = first; ; ) {
    const rows = await connection.query<R>(
      `${select} WHERE ${number} >= ? AND ${number} <= ? ORDER BY ${number} LIMIT ${rowsMax}`,
      [next, last],
    );
    if (rows.length > 0) yield rows;
    if (rows.length < rowsMax) return;
    const [highest] = Object.values<ColumnValue>(rows.at(-1) ?? {});
    next = BigInt(String(highest)) + 1n;
  }
}

/** Rows of one statement. */
export const rowsPerStatementMax = 500;

/** Splits a list into parts that each fit one statement. */
export function* partsOf<T>(list: readonly T[]): Generator<readonly T[]> {
  for (let at = 0; at < list.length; at += rowsPerStatementMax) yield list.slice(at, at + rowsPerStatementMax);
}

/**
 * Bytes of the values in one statement, except for a single larger row, as the driver writes them: binary ones in
 * hexadecimal, which doubles them. A server shows a session as idle until all of a statement has arrived, and one that
 * is idle for longer than `probeAfterMs` is taken for dead: over 2 Mbit/s this takes half of that time.
 */
export const statementBytesMax = 128 * 1024;

/** Writes rows. A row whose key is there already takes its place, or is left out where the first one stays. */
export async function writeRows<R>(
  connection: StatementRunner,
  table: TableRows<R>,
  rows: readonly R[],
): Promise<void> {
  const [first = ""] = table.columns;
  const changed =
    table.keepsFirst === true ? [`${first} = ${first}`] : table.columns.map((name) => `${name} = VALUES(${name})`);
  for (const part of statementsOf(rows.map(table.values))) {
    await connection.run(`${insertSql(table, part.length)} ON DUPLICATE KEY UPDATE ${changed.join(", ")}`, part.flat());
  }
}

/** Inserts rows that cannot be there yet. @throws the server's error for one that is */
export async function insertRows<R>(
  connection: StatementRunner,
  table: TableRows<R>,
  rows: readonly R[],
): Promise<void> {
  for (const part of statementsOf(rows.map(table.values))) {
    await connection.run(insertSql(table, part.length), part.flat());
  }
}

function insertSql({ table, columns }: Table, rows: number): string {
  const row = `(${columns.map(() => "?").join(", ")})`;
  return `INSERT INTO ${table} (${columns.join(", ")}) VALUES ${Array(rows).fill(row).join(", ")}`;
}

/** The bytes of a value in a statement, about. */
function bytesOf(value: Parameter): number {
  if (value instanceof Uint8Array) return 2 * value.length;
  return typeof value === "string" ? value.length : 8;
}

/** Splits the rows into parts that each fit one statement. */
function* statementsOf(rows: readonly (readonly Parameter[])[]): Generator<readonly (readonly Parameter[])[]> {
  let part: (readonly Parameter[])[] = [];
  let bytes = 0;
  for (const row of rows) {
    const rowBytes = row.reduce<number>((sum, value) => sum + bytesOf(value), 0);
    if (part.length === rowsPerStatementMax || (part.length > 0 && bytes + rowBytes > statementBytesMax)) {
      yield part;
      part = [];
      bytes = 0;
    }
    part.push(row);
    bytes += rowBytes;
  }
  if (part.length > 0) yield part;
}

/** Bytes of one packet to the server during a load. */
export const loadPacketBytes = 256 * 1024;

/** Fewer rows are inserted: that is one round trip instead of two. */
export const rowsWorthLoading = 20;

/**
 * Rows as text: columns separated by tabs, rows ended by line feeds. Nothing is escaped, because values contain
 * neither.
 */
export interface RowText {
  readonly bytes: Buffer;
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

/** What the driver listens to on its socket for a LOAD DATA. Where that fails, it leaves its listeners (mysql2 3.24). */
const flowEvents = ["drain", "pause"] as const;

/**
 * Loads new rows with LOAD DATA LOCAL. The connection must allow it (`openWriter`).
 * @throws OperatorError unless each row was stored unchanged; LOCAL otherwise skips and cuts without an error
 */
export async function loadRows(connection: Connection, table: string, columns: string, text: RowText): Promise<void> {
  const sql = `LOAD DATA LOCAL INFILE '${table}' INTO TABLE ${table} CHARACTER SET binary
  FIELDS TERMINATED BY '\\t' ENCLOSED BY '' ESCAPED BY '' LINES TERMINATED BY '\\n' (${columns})`;
  const infileStreamFactory = (): Readable => Readable.from(packets(text.bytes));
  const { driver, socket } = connection;
  const before = new Set(flowEvents.flatMap((event) => socket.listeners(event)));
  let outcome: { affectedRows: number; warningStatus: number; info: string };
  try {
    const [response] = await driver.query({ sql, infileStreamFactory });
    outcome = response as typeof outcome;
  } catch (error) {
    throw toDatabaseFailure(error);
  } finally {
    for (const event of flowEvents) {
      for (const each of socket.listeners(event)) if (!before.has(each)) socket.off(event, each as () => void);
    }
  }
  if (outcome.affectedRows === text.rows && outcome.warningStatus === 0) return;
  throw new OperatorError(
    `the server stored ${outcome.affectedRows} of ${text.rows} rows of ${table}: ${outcome.info}`,
  );
}

function* packets(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += loadPacketBytes) yield bytes.subarray(at, at + loadPacketBytes);
}
