import { hash } from "node:crypto";
import { chainStart } from "./block-table.js";
import { bundleRows, signatureRows } from "./bundle-table.js";
import type { Connection, Parameter } from "./connection/connection.js";
import { depthRows, levelRows, liveOrderRows, venueMarketRows } from "./depth-table.js";
import { marketDataRows, marketRows, tradeRows } from "./market-table.js";
import { progressRows } from "./progress-table.js";
import type { StatementRunner } from "./statement-group.js";
import { rowText, type Table, type TableRows, writeRows } from "./table-rows.js";

/** Hashes and their sums are numbers below this prime, 2^127 - 1: so a sum can be divided by another. */
const hashPrime = (1n << 127n) - 1n;

/** The hash of a row of a table. */
export function rowHash(table: string, values: readonly Parameter[]): bigint {
  const digest = hash("sha256", `${table}\n${rowText(values)}`, "buffer");
  return ((digest.readBigUInt64BE(0) << 64n) | digest.readBigUInt64BE(8)) % hashPrime;
}

/** What a set of rows adds up to; its order does not matter. */
export interface RowSum {
  readonly rows: bigint;
  /** Of the hashes. */
  readonly sum: bigint;
  /** Of the hashes, each times the place of its row: tells where a single wrong row belongs. */
  readonly placeSum: bigint;
}

export const noRows: RowSum = { rows: 0n, sum: 0n, placeSum: 0n };

/** The sum with one more row, or with `times` -1 one less. */
export function addRow({ rows, sum, placeSum }: RowSum, hashed: bigint, place: bigint, times: 1n | -1n = 1n): RowSum {
  return {
    rows: rows + times,
    sum: positive(sum + times * hashed),
    placeSum: positive(placeSum + times * hashed * place),
  };
}

/** The sum of the rows of both, or with `times` -1 of those that are not among the rows of `other`. */
export function addSum(one: RowSum, other: RowSum, times: 1n | -1n = 1n): RowSum {
  return {
    rows: one.rows + times * other.rows,
    sum: positive(one.sum + times * other.sum),
    placeSum: positive(one.placeSum + times * other.placeSum),
  };
}

/** What rows of a table add up to. */
export function sumOf(table: Table, rows: readonly (readonly Parameter[])[]): RowSum {
  return rows.reduce((sum, values) => addRow(sum, rowHash(table.table, values), placeOf(table, values)), noRows);
}

/** The place of the one row by which two sums differ; undefined: there is none, or they differ by more than that. */
export function placeOfDifference(one: RowSum, other: RowSum, placeMax: bigint): bigint | undefined {
  const difference = positive(one.sum - other.sum);
  if (difference === 0n) return undefined;
  const place = (positive(one.placeSum - other.placeSum) * power(difference, hashPrime - 2n)) % hashPrime;
  return place > 0n && place <= placeMax ? place : undefined;
}

function positive(value: bigint): bigint {
  const rest = value % hashPrime;
  return rest < 0n ? rest + hashPrime : rest;
}

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n;
  for (let square = base, rest = exponent; rest > 0n; rest >>= 1n, square = (square * square) % hashPrime) {
    if ((rest & 1n) === 1n) result = (result * square) % hashPrime;
  }
  return result;
}

/**
 * In place of a table's name: the row that says up to which block the digests were renewed, in `row_count`. The digest of
 * the first block covers the row, so that it cannot go unnoticed.
 */
const renewalName = "(renewed)";

/** The start of the chain of the blocks' digests. */
export interface ChainStart {
  /** What the first block's digest covers in place of a block before it. */
  readonly text: string;
  /** The newest block when the digests were renewed; undefined: they never were. */
  readonly renewedHeight: bigint | undefined;
}

export async function readChainStart(connection: Connection): Promise<ChainStart> {
  const [row] = await connection.query<{ height: bigint; one: string; other: string }>(
    "SELECT row_count AS height, row_sum AS one, place_sum AS other FROM table_digest WHERE table_name = ?",
    [renewalName],
  );
  if (row === undefined) return { text: chainStart, renewedHeight: undefined };
  return { text: startText(row.height, row.one, row.other), renewedHeight: row.height };
}

/** The start of a chain that was renewed when a block was the newest. */
export function renewedStart(height: bigint): string {
  return startText(height, "", "");
}

/** Of all columns of the row, so that none can be changed. */
function startText(height: bigint, rowSum: string, placeSum: string): string {
  return `renewed ${height} ${rowSum} ${placeSum}`;
}

/** Replaces all digests of tables, and says at which block they were renewed. */
export async function renewTableDigests(
  connection: Connection,
  sums: ReadonlyMap<string, RowSum>,
  height: bigint,
): Promise<void> {
  await connection.run("DELETE FROM table_digest");
  await writeTableDigests(connection, sums);
  await connection.run("INSERT INTO table_digest (table_name, row_count, row_sum, place_sum) VALUES (?, ?, '', '')", [
    renewalName,
    height,
  ]);
}

/** The tables of sums: that of the books' past is another, because earlier programs take unknown rows for damage. */
export type DigestTable = "table_digest" | "history_digest";

/** What each table adds up to, by its name; empty: no program that writes digests has been here. */
export async function readTableDigests(
  connection: Connection,
  table: DigestTable = "table_digest",
): Promise<Map<string, RowSum>> {
  const digests = await connection.query<{ name: string; rowCount: bigint; rowSum: string; placeSum: string }>(
    `SELECT table_name AS name, row_count AS rowCount, row_sum AS rowSum, place_sum AS placeSum
     FROM ${table} WHERE table_name <> ?`,
    [renewalName],
  );
  return new Map(
    digests.map(({ name, rowCount, rowSum, placeSum }) => [
      name,
      { rows: rowCount, sum: number(rowSum), placeSum: number(placeSum) },
    ]),
  );
}

/** Text that is not exactly what is written for a number equals no sum. */
function number(hexadecimal: string): bigint {
  return /^(0|[1-9a-f][0-9a-f]*)$/.test(hexadecimal) ? BigInt(`0x${hexadecimal}`) : -1n;
}

const digestRows: TableRows<readonly [table: string, sum: RowSum]> = {
  table: "table_digest",
  columns: ["table_name", "row_count", "row_sum", "place_sum"],
  keyColumns: 1,
  values: ([table, { rows, sum, placeSum }]) => [table, rows, sum.toString(16), placeSum.toString(16)],
};

/** Stores what tables add up to. */
export async function writeTableDigests(
  connection: StatementRunner,
  sums: ReadonlyMap<string, RowSum>,
  table: DigestTable = "table_digest",
): Promise<void> {
  await writeRows(connection, { ...digestRows, table }, [...sums]);
}

/**
 * Every table of which the loader keeps a row in `table_digest`: those whose rows change, and those whose rows belong to
 * no block. `retain` keeps that of `ledger_retention`.
 */
export const digestedTables: readonly Table[] = [
  progressRows,
  marketRows,
  marketDataRows,
  depthRows,
  levelRows,
  liveOrderRows,
  tradeRows,
  venueMarketRows,
  bundleRows,
  signatureRows,
];

/** Whether a loader has written digests of tables. */
export function hasTableDigests(digests: ReadonlyMap<string, unknown>): boolean {
  return digestedTables.some(({ table }) => digests.has(table));
}

/** The place of a row: its `changed_sequence`, or `stream_sequence` in the key of a change; 0 in a table without. */
export function placeOf({ columns }: Table, values: readonly Parameter[]): bigint {
  const place =
    values[
      columns.findIndex((name, index) => name === "changed_sequence" || (index === 1 && name === "stream_sequence"))
    ];
  return typeof place === "bigint" ? place : 0n;
}

/** The primary key of a row, as text. */
export function keyOf({ keyColumns }: Table, values: readonly Parameter[]): string {
  return rowText(values.slice(0, keyColumns));
}
