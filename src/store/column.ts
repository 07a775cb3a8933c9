import type { TypeCastField as Field, TypeCastNext as Next } from "mysql2/promise";

/**
 * How a column becomes a value, for every query of the store:
 *
 * | column | value |
 * | --- | --- |
 * | BIGINT, and what COUNT and SUM of integers give as BIGINT | `bigint` |
 * | TINYINT, INT | `number` |
 * | VARBINARY | `string`, one character per byte; identifiers and decimal text are ASCII |
 * | any BLOB | `Uint8Array` |
 * | DECIMAL | `string` of all its digits |
 * | NULL | `null` |
 *
 * The driver's own way with BIGINT is a `number` that rounds, or text, on which `<` compares digits from the left.
 */
export type ColumnValue = bigint | number | string | Uint8Array | null;

/** Rows of a query, by column name or alias. */
export type Row = Readonly<Record<string, ColumnValue>>;

/**
 * The driver's hook for each value. It needs `supportBigNumbers` and `bigNumberStrings`, with which the driver returns
 * a BIGINT as text in both of its protocols.
 */
export function columnValue(field: Field, next: Next): unknown {
  switch (field.type) {
    case "LONGLONG": {
      const text = next();
      return typeof text === "string" ? BigInt(text) : text;
    }
    case "VAR_STRING":
    case "STRING":
      return field.string("latin1");
    default:
      return next();
  }
}
