import type { EntryRow, IdRange } from "./branch-merge.js";
import type { LedgerFilter } from "./ledger-selection.js";

/** Filters of which a process remembers what their pages took. */
export const rememberedFiltersMax = 256;

/** Pages of a filter, in each direction, of which that is remembered. */
const pagesMax = 4;

/** Smaller pages say little of how dense matches are. */
const rowsWorthRemembering = 16;

/** Where the matches of a page are expected to end. */
export interface StretchGuess {
  /** The last id of the stretch, within the range. */
  readonly end: bigint;
  /** How many ids a match takes; undefined: there was none. */
  readonly idsPerMatch: number | undefined;
}

/** Where a walk of the table is after so many entries. */
export interface WalkStep {
  readonly entries: number;
  /** The id there; undefined: the table ends before. */
  readonly end: bigint | undefined;
}

/** What a page took. */
interface PageTrace {
  readonly descending: boolean;
  /** Where its range began. */
  readonly start: bigint;
  /** Its first match; undefined: there was none. */
  readonly first: bigint | undefined;
  /** Its last match, or the end of the range where there were no more. */
  readonly last: bigint;
  readonly rows: number;
}

/**
 * What is known of where a selection's matches lie, from pages before. It decides how a page is looked for and never
 * what it holds: what a process remembers may be long out of date, and the page is still right.
 */
export class SelectionMemory {
  /** How many ids an entry takes, places between blocks included; undefined: not seen yet. */
  idsPerEntry: number | undefined;
  /** How many entries a walk of the table passes for a match; undefined: that was not how a page was found. */
  entriesPerMatch: number | undefined;
  #crowded: IdRange | undefined;
  readonly #pages: PageTrace[] = [];

  /** Whether a range holds too many matches to be gathered: the ledger only grows, so a range around such a one does. */
  isCrowded(range: IdRange): boolean {
    return this.#crowded !== undefined && range.low <= this.#crowded.low && this.#crowded.high <= range.high;
  }

  noteCrowded(range: IdRange): void {
    this.#crowded = range;
  }

  /** Notes the outcome of a page, which has fewer rows than wanted only where its range has no more. */
  notePage(range: IdRange, want: number, rows: readonly EntryRow[]): void {
    if (want < rowsWorthRemembering) return;
    const { descending } = range;
    const end = descending ? range.low : range.high;
    const start = startOf(range);
    const last = rows.length < want ? end : (rows.at(-1)?.id ?? end);
    const same = this.#pages.findIndex((page) => page.descending === descending && page.start === start);
    const inDirection = this.#pages.filter((page) => page.descending === descending);
    const [oldest] = inDirection;
    if (same >= 0) this.#pages.splice(same, 1);
    else if (inDirection.length >= pagesMax && oldest !== undefined) this.#pages.splice(this.#pages.indexOf(oldest), 1);
    this.#pages.push({ descending, start, first: rows[0]?.id, last, rows: rows.length });
  }

  /** Where a page may end, by the page that began nearest; undefined: nothing is known. */
  guess(range: IdRange, want: number): StretchGuess | undefined {
    const { low, high, descending } = range;
    const start = startOf(range);
    let nearest: PageTrace | undefined;
    for (const page of this.#pages) {
      if (page.descending !== descending) continue;
      if (nearest === undefined || distance(page.start, start) <= distance(nearest.start, start)) nearest = page;
    }
    if (nearest === undefined) return undefined;
    const end = descending ? low : high;
    const { first, last, rows } = nearest;
    if (first === undefined) return { end, idsPerMatch: undefined };
    const idsPerMatch = Number(distance(first, last) + 1n) / rows;
    // From where that page began, or near there, the same emptiness comes first.
    const isNear = distance(nearest.start, start) <= distance(nearest.start, last);
    const isAhead = descending ? first < start : first > start;
    const from = isNear && isAhead ? first : start;
    const span = BigInt(Math.ceil(idsPerMatch * withScatter(want)));
    if (descending) return { end: from - span > low ? from - span : low, idsPerMatch };
    return { end: from + span < high ? from + span : high, idsPerMatch };
  }
}

/** What is known of the last filters that were asked for. */
export class LedgerMemory {
  readonly #filtersMax: number;
  readonly #selections = new Map<string, SelectionMemory>();

  constructor(filtersMax: number) {
    this.#filtersMax = filtersMax;
  }

  of(filter: LedgerFilter): SelectionMemory {
    const key = keyOf(filter);
    const memory = this.#selections.get(key) ?? new SelectionMemory();
    this.#selections.delete(key);
    this.#selections.set(key, memory);
    const [oldest] = this.#selections.keys();
    if (this.#selections.size > this.#filtersMax && oldest !== undefined) this.#selections.delete(oldest);
    return memory;
  }
}

function keyOf({ from, to, closed, transferTypes }: LedgerFilter): string {
  const sides = [from, to].map((side) => side && [side.partyId, side.assetId, side.marketIds, side.types]);
  return JSON.stringify([...sides, closed, transferTypes]);
}

/** Matches scatter: three times the deviation of as many that are independent. */
export function withScatter(matches: number): number {
  return matches + 3 * Math.sqrt(matches) + 4;
}

function startOf({ low, high, descending }: IdRange): bigint {
  return descending ? high : low;
}

function distance(a: bigint, b: bigint): bigint {
  return a < b ? b - a : a - b;
}
