import { beyond, type IdRange, idsIn } from "../store/id-range.js";
import { type EntryText, idOf } from "./entry-row.js";
import { uniteBranches } from "./index-union.js";
import { mergeBranches } from "./k-way-merge.js";
import type { LedgerView } from "./ledger-view.js";
import {
  choosePlan,
  isOneRange,
  type KnownStatistics,
  learn,
  type Outcome,
  type Plan,
  type Statistics,
} from "./plan.js";
import { scanRange } from "./range-scan.js";
import type { LedgerSelection } from "./selection.js";
import { scanTable } from "./table-scan.js";

/** The state of a scan: what is left, and its statistics. */
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

/** The result of a scan. */
export interface ScannedEntries {
  /** The first entries in the direction of the scan: at least as many as wanted, unless it ended before. */
  readonly rows: readonly EntryText[];
  /** Where to continue. `rest` is empty if there are no more entries, and not if the bound on work was reached. */
  readonly state: ScanState;
}

/** The next `want` entries of a selection. Runs plans until there are enough, each chosen by the statistics so far. */
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
  const rows: EntryText[] = [];
  while (range.low <= range.high) {
    const small = isOneRange(selection) ? undefined : await view.smallSize();
    const plan = choosePlan(selection, { ...statistics, small });
    if (plan === undefined) break;
    const before = range;
    const outcome = await view.run(plan, () => execute(view, plan, before));
    // The ledger has grown since it was counted, so this was not all of it.
    if (small !== undefined && !view.isCounted) continue;
    const latest = range.descending ? outcome.rows[0] : outcome.rows.at(-1);
    if (latest !== undefined) view.requireSeen(idOf(latest));
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
