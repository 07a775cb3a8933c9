import { addSum, noRows, type RowSum, sumOf } from "../store/table-digest-table.js";
import type { Table, TableRows } from "../store/table-rows.js";

/** What tables of the past add up to, by their names. A digest that was removed is not among them. */
export type PastSums = Map<string, RowSum>;

/**
 * The sums as the last loader left them, and not of the rows that are there: a row that was changed by others stays wrong.
 * A digest that was removed stays missing, because nobody knows what it was.
 * @param isFirst no loader that writes these digests was here before
 */
export function startSums(tables: readonly Table[], digests: ReadonlyMap<string, RowSum>, isFirst: boolean): PastSums {
  const known = tables.filter(({ table }) => isFirst || digests.has(table));
  return new Map(known.map(({ table }) => [table, digests.get(table) ?? noRows]));
}

/** Adds rows to the sum of their table, or with `times` -1 takes them from it. */
export function addTo(sums: PastSums, { table }: Table, rows: RowSum, times: 1n | -1n = 1n): void {
  const sum = sums.get(table);
  if (sum !== undefined) sums.set(table, addSum(sum, rows, times));
}

/** The same with one row. */
export function addRowTo<R>(sums: PastSums, table: TableRows<R>, row: R, times: 1n | -1n = 1n): void {
  addTo(sums, table, sumOf(table, [table.values(row)]), times);
}

/** Puts a row in place of another, if there was one, in the sum of their table. */
export function replaceRow<R>(sums: PastSums, table: TableRows<R>, before: R | undefined, after: R): void {
  if (before !== undefined) addRowTo(sums, table, before, -1n);
  addRowTo(sums, table, after);
}
