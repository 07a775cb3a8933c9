import type { Connection, Parameter } from "./driver-connection.js";
import type { TableRows } from "./table-rows.js";

/** Rows of one statement, so that it fits the smallest packet that a server allows. */
export const rowsPerStatementMax = 500;

/**
 * Bytes of binary values in one statement, except for a single larger row. The driver writes them in hexadecimal, which
 * doubles them; servers allow 16 MiB by default.
 */
export const statementBytesMax = 4 * 1024 * 1024;

/**
 * Writes whole rows; rows whose key exists get new values. `columns` starts with those of the key. With `keep`,
 * existing rows are unchanged.
 */
export async function upsert(
  connection: Connection,
  table: string,
  columns: readonly string[],
  rows: readonly (readonly Parameter[])[],
  conflict: "replace" | "keep" = "replace",
): Promise<void> {
  const first = columns[0] ?? "";
  const assignments =
    conflict === "keep" ? [`${first} = ${first}`] : columns.map((name) => `${name} = VALUES(${name})`);
  const row = `(${columns.map(() => "?").join(", ")})`;
  for (const part of statementsOf(rows)) {
    await connection.run(
      `INSERT INTO ${table} (${columns.join(", ")}) VALUES ${part.map(() => row).join(", ")}
       ON DUPLICATE KEY UPDATE ${assignments.join(", ")}`,
      part.flat(),
    );
  }
}

/** Writes rows of a table, as {@link upsert} does. */
export async function upsertRows<R>(
  connection: Connection,
  { table, columns, values }: TableRows<R>,
  rows: readonly R[],
  conflict: "replace" | "keep" = "replace",
): Promise<void> {
  await upsert(connection, table, columns, rows.map(values), conflict);
}

/** Inserts rows that cannot be there yet. @throws the server's error for one that is */
export async function insert(
  connection: Connection,
  table: string,
  columns: readonly string[],
  rows: readonly (readonly Parameter[])[],
): Promise<void> {
  const row = `(${columns.map(() => "?").join(", ")})`;
  for (let at = 0; at < rows.length; at += rowsPerStatementMax) {
    const part = rows.slice(at, at + rowsPerStatementMax);
    await connection.run(
      `INSERT INTO ${table} (${columns.join(", ")}) VALUES ${part.map(() => row).join(", ")}`,
      part.flat(),
    );
  }
}

/** Splits the rows into parts that each fit one statement. */
function* statementsOf(rows: readonly (readonly Parameter[])[]): Generator<readonly (readonly Parameter[])[]> {
  let part: (readonly Parameter[])[] = [];
  let bytes = 0;
  for (const row of rows) {
    const rowBytes = row.reduce<number>((sum, value) => sum + (value instanceof Uint8Array ? value.length : 0), 0);
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
