import type { Connection, Parameter } from "./database.js";

/** Rows in one statement, so that no statement outgrows the smallest packet a server allows. */
export const rowsPerStatementMax = 500;

/**
 * Writes whole rows: those whose key is there get new values. `columns` begins with the key's; with `keep`, rows that
 * are there stay as they are.
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
  for (let at = 0; at < rows.length; at += rowsPerStatementMax) {
    const part = rows.slice(at, at + rowsPerStatementMax);
    await connection.run(
      `INSERT INTO ${table} (${columns.join(", ")}) VALUES ${part.map(() => row).join(", ")}
       ON DUPLICATE KEY UPDATE ${assignments.join(", ")}`,
      part.flat(),
    );
  }
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
