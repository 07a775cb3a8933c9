import type { Connection, Parameter } from "./driver-connection.js";

/** How rows of a table are written: which columns in which order, the primary key first. */
export interface TableRows<R> {
  readonly table: string;
  readonly columns: readonly string[];
  /** How many columns are the primary key. */
  readonly keyColumns: number;
  /** The values of a row, in the order of the columns. */
  readonly values: (row: R) => readonly Parameter[];
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
export async function readRows(
  connection: Pick<Connection, "query">,
  { table, columns }: Pick<TableRows<never>, "table" | "columns">,
): Promise<Parameter[][]> {
  const rows = await connection.query(`SELECT ${columns.join(", ")} FROM ${table}`);
  return rows.map((row) => columns.map((name) => row[name] ?? null));
}
