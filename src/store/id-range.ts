/** The highest id that fits the primary key's 63 bits. */
export const idMax = (1n << 63n) - 1n;

/** A range of entry ids, inclusive, and the direction of its scan. Empty if `low` > `high`. */
export interface IdRange {
  readonly low: bigint;
  readonly high: bigint;
  readonly descending: boolean;
}

/** The number of ids in a range, for estimates. */
export function idsIn({ low, high }: IdRange): number {
  return low > high ? 0 : Number(high - low + 1n);
}

/** What is left of a scan after an id; undefined: nothing. */
export function beyond(range: IdRange, id: bigint | undefined): IdRange {
  if (id === undefined) return { ...range, low: 1n, high: 0n };
  return range.descending ? { ...range, high: id - 1n } : { ...range, low: id + 1n };
}

/** The part of a range up to an id, inclusive. */
export function upTo(range: IdRange, id: bigint): IdRange {
  return range.descending ? { ...range, low: id } : { ...range, high: id };
}

/** An SQL condition on `id`, to append to another. */
export function idsSql({ low, high }: IdRange): string {
  return `AND id >= ${low} AND id <= ${high}`;
}

/** `ORDER BY` the id in the direction of the scan; `table` is a prefix. */
export function orderSql({ descending }: IdRange, table = ""): string {
  return `ORDER BY ${table}id ${descending ? "DESC" : "ASC"}`;
}
