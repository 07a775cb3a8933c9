import type { EntryRow } from "./entry-row.js";
import { beyond, type IdRange, idsIn } from "./id-range.js";
import { uniteBranches } from "./index-union.js";
import { mergeBranches } from "./k-way-merge.js";
import type { LedgerView } from "./ledger-view.js";
import { choosePlan, type KnownStatistics, learn, type Outcome, type Plan, type Statistics } from "./plan.js";
import { scanRange } from "./range-scan.js";
import type { LedgerSelection } from "./selection.js";
import { scanTable } from "./table-scan.js";

/** Where a scan is: what it has left, and what it knows of that. */
export interface ScanState {
  readonly rest: IdRange;
  readonly known?: KnownStatistics | undefined;
}

const nothingKnown: KnownStatistics = {
  idsPerMatch: undefined,
  idsPerEntry: undefined,
  hasManyMatches: false,
  firstMatch: undefined,
  idsToMatch: 0,
};

/** What a scan found. */
export interface ScannedEntries {
  /** The first entries in the direction of the scan: at least as many as were wanted, unless it ended before. */
  readonly rows: readonly EntryRow[];
  /** Where to go on. Its `rest` is empty when there are no more; it is not when the bound on work ended the scan. */
  readonly state: ScanState;
}

/** The next `want` entries of a selection: runs plans, one after the other, each chosen by what those before have shown. */
export async function scanEntries(
  view: LedgerView,
  selection: LedgerSelection,
  { rest, known }: ScanState,
  want: number,
): Promise<ScannedEntries> {
  const isNone = selection.kind === "branches" && selection.branches.length === 0;
  let range = view.clip(isNone ? beyond(rest, undefined) : rest);
  let statistics: Statistics = {
    ...(known ?? nothingKnown),
    missing: want,
    entriesScanned: 0,
    keysMerged: 0,
    unions: 0,
  };
  const rows: EntryRow[] = [];
  while (range.low <= range.high) {
    const plan = choosePlan(selection, statistics);
    if (plan === undefined) break;
    const before = range;
    const outcome = await view.run(plan, () => execute(view, plan, before));
    for (const row of outcome.rows) rows.push(row);
    range = view.clip(outcome.rest);
    statistics = learn(statistics, plan, outcome, idsIn(view.clip(before)) - idsIn(range));
  }
  return { rows, state: { rest: range, known: statistics } };
}

function execute(view: LedgerView, plan: Plan, range: IdRange): Promise<Outcome> {
  switch (plan.name) {
    case "range_scan":
      return scanRange(view, plan, range);
    case "k_way_merge":
      return mergeBranches(view, plan, range);
    case "table_scan":
      return scanTable(view, plan, range);
    case "index_union":
      return uniteBranches(view, plan, range);
  }
}
