import type { TypeCastField as Field, FieldPacket, TypeCastNext as Next } from "mysql2/promise";

/**
 * How a column becomes a value, for every query of the store:
 *
 * | column | value |
 * | --- | --- |
 * | BIGINT, and what COUNT and SUM of integers give as BIGINT | `bigint` |
 * | TINYINT, SMALLINT, INT | `number` |
 * | VARBINARY of a table | `string`, one character per byte; identifiers and decimal text are ASCII |
 * | text, {@link asText} | `string` |
 * | BLOB, `CAST(… AS BINARY)` of more than 64 KiB | `Uint8Array` |
 * | DECIMAL | `string` of all its digits |
 * | NULL | `null` |
 *
 * Servers choose the type of an expression by rules of their own: bytes that pass through UNION, CONCAT, IF or a
 * derived table are VARBINARY on one and BLOB on another. So bytes are a table's own column, or their type is stated;
 * {@link checkColumns} refuses all else.
 *
 * The driver's own way with BIGINT is a `number` that rounds, or text, on which `<` compares digits from the left.
 */
export type ColumnValue = bigint | number | string | Uint8Array | null;

/** Rows of a query, by column name or alias. */
export type Row = Readonly<Record<string, ColumnValue>>;

/** States the type of an SQL expression: text of ASCII characters, on every server. */
export function asText(sql: string): string {
  return `CAST(${sql} AS CHAR CHARACTER SET ascii)`;
}

/** The bytes of a column that is read as text of one character per byte. */
export function toBytes(text: string): Buffer {
  return Buffer.from(text, "latin1");
}

/**
 * The driver's hook for each value. It needs `supportBigNumbers` and `bigNumberStrings`, with which the driver returns
 * a BIGINT as text.
 */
export function columnValue(field: Field, next: Next): unknown {
  switch (field.type) {
    case "LONGLONG": {
      const text = next();
      return typeof text === "string" ? BigInt(text) : text;
    }
    case "VAR_STRING":
    case "STRING":
      // Of its own character set; for bytes that is latin1.
      return field.string();
    default:
      return next();
  }
}

/** Numbers of types in the protocol, which both servers use. */
const types = {
  exact: new Set([1, 2, 3, 6, 8, 246]), // TINY, SHORT, LONG, NULL, LONGLONG, NEWDECIMAL
  string: new Set([253, 254]), // VAR_STRING, STRING
  blob: new Set([249, 250, 251, 252]), // TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB
};

/** The number of the collation of bytes in the protocol. */
const binary = 63;

/** What the driver tells of a result's columns; of several results, of those of each that has any. */
export type Columns = readonly (FieldPacket | readonly FieldPacket[] | undefined)[] | undefined;

/** @throws Error for a result with a column that is not in the table above */
export function checkColumns(columns: Columns = []): void {
  for (const column of columns.flat()) {
    if (column === undefined || isExpected(column)) continue;
    const { name, columnType, characterSet } = column;
    throw new Error(`column ${name} of a result has type ${columnType} and collation ${characterSet}: state its type`);
  }
}

function isExpected({ columnType = -1, characterSet, orgTable }: FieldPacket): boolean {
  if (types.exact.has(columnType) || types.blob.has(columnType)) return true;
  // An expression has no table.
  return types.string.has(columnType) && (characterSet !== binary || orgTable !== "");
}
