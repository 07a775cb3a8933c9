import { gatherBranches } from "./branch-gather.js";
import { type EntryRow, type IdRange, mergeBranches, type ScannedEntries } from "./branch-merge.js";
import type { Connection } from "./database.js";
import type { Branch } from "./ledger-selection.js";

/** Stretches of the branches that are gathered for one page, before the rest of it is merged. */
export const stretchesMax = 3;

/**
 * Gathers from stretches of the range that are as long as it takes by the density of matches so far, and merges what
 * is missing then; where that density is not known, everything. A stretch that holds too many is tried again at a
 * quarter of its length.
 */
export async function gatherStretches(
  connection: Connection,
  branches: readonly Branch[],
  range: IdRange,
  want: number,
  idsPerMatch: number | undefined,
): Promise<ScannedEntries> {
  const rows: EntryRow[] = [];
  let { low, high } = range;
  const { descending } = range;
  let perMatch = idsPerMatch;
  for (let i = 0; i < stretchesMax && perMatch !== undefined && low <= high; i++) {
    const missing = want - rows.length;
    // A third more than it should take, and some for the scatter of small numbers.
    const span = Math.ceil(perMatch * (1.3 * missing + 8));
    const stretch = cut({ low, high, descending }, BigInt(span));
    const gathered = await gatherBranches(connection, branches, stretch, missing, 4 * missing + 64);
    if (gathered === undefined) {
      perMatch /= 4;
      continue;
    }
    rows.push(...gathered);
    if (rows.length === want) return { rows, reached: undefined };
    perMatch = span / Math.max(gathered.length, 0.25);
    if (descending) high = stretch.low - 1n;
    else low = stretch.high + 1n;
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
