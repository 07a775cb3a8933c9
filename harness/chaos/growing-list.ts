/** A list as the service shows it: rows are only added, and each has a digest. */
export interface DigestedList {
  /** What its rows can be selected by. */
  keys(): string[];
  /** Rows that `key` selects at the end of block `height`; undefined: all rows. */
  count(key: string | undefined, height: number): number;
  /** The digest of the row at a place among those that `key` selects; undefined: there is none. */
  digest(key: string | undefined, place: number): string | undefined;
}

/** Rows in the order of the network, with how many there were at the end of every block. */
export class GrowingList<Row> implements DigestedList {
  readonly #rows: Row[] = [];
  /** Places of the rows that each key selects, in order. */
  readonly #places = new Map<string, number[]>();
  /** Rows at the end of each block. */
  readonly #ends: number[] = [];
  readonly #digestOf: (row: Row) => string;

  constructor(digestOf: (row: Row) => string) {
    this.#digestOf = digestOf;
  }

  add(row: Row, keys: Iterable<string>): void {
    const place = this.#rows.push(row) - 1;
    for (const key of keys) {
      const places = this.#places.get(key);
      if (places === undefined) this.#places.set(key, [place]);
      else places.push(place);
    }
  }

  endBlock(): void {
    this.#ends.push(this.#rows.length);
  }

  keys(): string[] {
    return [...this.#places.keys()];
  }

  count(key: string | undefined, height: number): number {
    const end = this.#ends[Math.min(height, this.#ends.length) - 1] ?? 0;
    return key === undefined ? end : countBelow(this.#places.get(key) ?? [], end);
  }

  row(key: string | undefined, place: number): Row | undefined {
    return this.#rows[key === undefined ? place : (this.#places.get(key)?.[place] ?? -1)];
  }

  digest(key: string | undefined, place: number): string | undefined {
    const row = this.row(key, place);
    return row === undefined ? undefined : this.#digestOf(row);
  }
}

/** How many of these places, which rise, are below `end`. */
function countBelow(places: readonly number[], end: number): number {
  let low = 0;
  let high = places.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((places[middle] ?? 0) < end) low = middle + 1;
    else high = middle;
  }
  return low;
}
