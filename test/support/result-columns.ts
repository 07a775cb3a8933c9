import mysql, { type Connection, type FieldPacket } from "mysql2/promise";

/** The value that a column becomes, by src/store/connection/column.ts, from its type and character set in the protocol. */
function kindOf({ columnType = -1, characterSet }: FieldPacket): string {
  const isBytes = characterSet === 63;
  if ([1, 3].includes(columnType)) return "number";
  if (columnType === 8) return "bigint";
  if (columnType === 246) return "decimal";
  if ([253, 254].includes(columnType)) return isBytes ? "bytes as text" : "text";
  if ([249, 250, 251, 252].includes(columnType)) return isBytes ? "bytes" : "text";
  return `type ${columnType}`;
}

/** A result's columns in one line: each with the table that it is of, if it is no expression, and its value. */
function describe(columns: readonly FieldPacket[]): string {
  return columns
    .map((column) => `${column.orgTable === "" ? "" : `${column.orgTable}.`}${column.name}: ${kindOf(column)}`)
    .join(", ");
}

/** Notes the columns of every result that the driver gives, in this process, while `work` runs. */
export async function columnsDuring(work: () => Promise<void>): Promise<Set<string>> {
  const seen = new Set<string>();
  const { prototype } = (mysql as unknown as { PromiseConnection: { prototype: Connection } }).PromiseConnection;
  const original = prototype.query;
  prototype.query = async function query(this: unknown, ...given: unknown[]) {
    const answered = (await Reflect.apply(original, this, given)) as [unknown, (FieldPacket | FieldPacket[])[]?];
    const columns = answered[1] ?? [];
    const isOne = columns.some((column) => column !== undefined && !Array.isArray(column));
    const results = (isOne ? [columns] : columns) as (FieldPacket[] | undefined)[];
    for (const result of results) if (result !== undefined) seen.add(describe(result));
    return answered;
  } as typeof original;
  try {
    await work();
  } finally {
    prototype.query = original;
  }
  return seen;
}
