import mysql, { type Connection, type FieldPacket } from "mysql2/promise";
import { readSource, trackedFiles, withoutComments } from "../architecture/sources.js";

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

/** What the store's statements were, and the columns of their results. */
export interface Statements {
  readonly texts: Set<string>;
  /** A line for the columns of a result. */
  readonly columns: Set<string>;
}

/** Notes the statements that the driver is given, in this process, and the columns of their results, while `work` runs. */
export async function statementsDuring(work: () => Promise<void>): Promise<Statements> {
  const seen: Statements = { texts: new Set(), columns: new Set() };
  const { prototype } = (mysql as unknown as { PromiseConnection: { prototype: Connection } }).PromiseConnection;
  const original = prototype.query;
  prototype.query = async function query(this: unknown, ...given: unknown[]) {
    const answered = (await Reflect.apply(original, this, given)) as [unknown, (FieldPacket | FieldPacket[])[]?];
    const [statement] = given as [string | { readonly sql: string }];
    seen.texts.add(inOneLine(typeof statement === "string" ? statement : statement.sql));
    const columns = answered[1] ?? [];
    const isOne = columns.some((column) => column !== undefined && !Array.isArray(column));
    const results = (isOne ? [columns] : columns) as (FieldPacket[] | undefined)[];
    for (const result of results) if (result !== undefined) seen.columns.add(describe(result));
    return answered;
  } as typeof original;
  try {
    await work();
  } finally {
    prototype.query = original;
  }
  return seen;
}

const expression = /\$\{(?:[^{}]|\{[^{}]*\})*\}/;
const literals = new RegExp(`"[^"\\n]*"|\`(?:[^\`$]|${expression.source})*\``, "g");

/** The texts in `src` that read rows, of which no statement was made. */
export function selectsWithout(statements: ReadonlySet<string>): string[] {
  const sources = trackedFiles().filter((path) => path.startsWith("src/") && path.endsWith(".ts"));
  const texts = sources.flatMap((path) => withoutComments(readSource(path)).match(literals) ?? []);
  const selects = texts
    .filter((text) => /\bSELECT\b/.test(text))
    .map((text) => unescaped(inOneLine(text.slice(1, -1))));
  return selects.filter((select) => {
    const parts = select.split(new RegExp(expression, "g"));
    return ![...statements].some((statement) => hasInOrder(statement, parts));
  });
}

function hasInOrder(text: string, parts: readonly string[]): boolean {
  let at = 0;
  return parts.every((part) => {
    const found = text.indexOf(part, at);
    at = found + part.length;
    return found >= 0;
  });
}

/** Of SQL, which is written without other escapes than those of a backslash. */
function unescaped(literal: string): string {
  return literal.replaceAll("\\\\", "\\");
}

function inOneLine(sql: string): string {
  return sql.replace(/\s+/g, " ");
}
