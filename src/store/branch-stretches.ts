import { gatherStretch } from "./branch-gather.js";
import { type EntryRow, type IdRange, mergeBranches, type ScannedEntries } from "./branch-merge.js";
import type { StretchGuess } from "./ledger-memory.js";
import type { Branch } from "./ledger-selection.js";
import type { PlacedConnection } from "./placed-read.js";

/** Stretches of the branches that are gathered for one page, before the rest of it is merged. */
export const stretchesMax = 3;

/** How long a stretch must be to hold about as many as are missing, where no page has told yet. */
export function guessStretch(range: IdRange, want: number, idsPerMatch: number): StretchGuess {
  // A third more than it should take, and some for the scatter of small numbers.
  const { low, high } = cut(range, BigInt(Math.ceil(idsPerMatch * (1.3 * want + 8))));
  return { end: range.descending ? low : high, idsPerMatch };
}

/**
 * Gathers from stretches of the range that are as long as it takes by a guess, and then by the density of matches so
 * far, and merges what is missing then; without a guess, or where a branch is restricted, everything. A stretch that
 * holds too many is tried again at a quarter of its length.
 */
export async function gatherStretches(
  connection: PlacedConnection,
  branches: readonly Branch[],
  range: IdRange,
  want: number,
  guess: StretchGuess | undefined,
): Promise<ScannedEntries> {
  const rows: EntryRow[] = [];
  let { low, high } = range;
  const { descending } = range;
  let next = branches.some(({ other }) => other !== undefined) ? undefined : guess;
  for (let i = 0; i < stretchesMax && next !== undefined && low <= high; i++) {
    const missing = want - rows.length;
    const stretch = descending ? { low: next.end, high, descending } : { low, high: next.end, descending };
    const span = Number(stretch.high - stretch.low + 1n);
    const gathered = await gatherStretch(connection, branches, stretch, 4 * missing + 64);
    if (gathered === undefined) {
      const idsPerMatch = Math.min(next.idsPerMatch ?? span, span / missing) / 4;
      next = guessStretch({ low, high, descending }, missing, idsPerMatch);
      continue;
    }
    for (const row of gathered.slice(0, missing)) rows.push(row);
    if (rows.length === want) return { rows, reached: undefined };
    if (descending) high = stretch.low - 1n;
    else low = stretch.high + 1n;
    next = guessStretch({ low, high, descending }, want - rows.length, span / Math.max(gathered.length, 0.25));
  }
  if (low > high) return { rows, reached: undefined };
  const merged = await mergeBranches(connection, branches, { low, high, descending }, want - rows.length);
  return { rows: [...rows, ...merged.rows], reached: merged.reached };
}

/** The first `span` ids of a range. */
function cut({ low, high, descending }: IdRange, span: bigint): IdRange {
  if (high - low < span) return { low, high, descending };
  return descending ? { low: high - span + 1n, high, descending } : { low, high: low + span - 1n, descending };
}
