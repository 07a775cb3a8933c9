import type { IdRange } from "../store/id-range.js";
import type { EntryText } from "./entry-row.js";
import type { Branch, LedgerSelection } from "./selection.js";

/** Up to this many branches are merged without knowing their density. */
export const branchesMergedMax = 24;

/** Up to this many branches, without whole classes, are united before the table is sampled. */
export const branchesUnitedFirstMax = 100;

/** Branches that a request merges or unites at most. */
export const branchesMax = 4_096;

/** Entries that the table scans of a request examine at most. */
export const entriesScannedMax = 65_536;

/** Index keys that the merges of a request read at most after their first round: the bound on rare intersections. */
export const keysMergedMax = 40_000;

/** Keys of each index that a union reads at most if the density is unknown. */
export const keysUnitedMax = 512;

/** Unions by density that a request tries at most. */
export const unionsMax = 3;

/** Entries that a first table scan examines, besides ten times the branches and six times the page. */
const sampleEntriesMin = 256;
const sampleEntriesMax = 1_024;

/** A ledger of up to this many entries is scanned whole: for no more than a sample of a large one. */
export const smallLedgerEntriesMax = sampleEntriesMax;

/** Matches are rare if fewer than one in this many entries matches. */
const rareEntriesPerMatch = 64;

/** Measured costs of a plan's steps, in microseconds. Only their ratios matter. */
const cost = { scanned: 0.3, scannedMatch: 1, branch: 12, unitedMatch: 4 } as const;

/** The number of entries in a ledger up to its newest. */
export interface LedgerSize {
  readonly entries: number;
  readonly newest: bigint;
}

/** One way to find the next entries of a selection. Its result determines the next plan. */
export type Plan =
  /** Reads `entries` from the primary key, or from the index of one branch, in order. */
  | { readonly name: "range_scan"; readonly branch: Branch | undefined; readonly entries: number }
  /** Reads some entries of each branch in order, then more of the branches that delay the merge. */
  | { readonly name: "k_way_merge"; readonly branches: readonly Branch[]; readonly entries: number }
  /** Examines the next `examined` entries of the table and takes up to `entries` that match. */
  | {
      readonly name: "table_scan";
      readonly branches: readonly Branch[];
      readonly examined: number;
      readonly entries: number;
      /** These are all entries of the ledger, so that one statement does. Undefined: there may be more. */
      readonly whole?: LedgerSize | undefined;
    }
  /** Reads all matches in the next `ids` ids. Undefined: in all ids, and of those only the first `entries`. */
  | {
      readonly name: "index_union";
      readonly branches: readonly Branch[];
      readonly ids: number | undefined;
      /** The ids are counted from this one; undefined: from the position of the scan. */
      readonly from?: bigint | undefined;
      /** With more matches than this it returns none, and says so. */
      readonly keysMax: number;
      readonly entries: number;
    };

/** The names of all plans. */
export const planNames = ["range_scan", "k_way_merge", "table_scan", "index_union"] as const satisfies Plan["name"][];

/** What is known about the positions of a selection's matches. */
export interface KnownStatistics {
  /** Ids per match where the last plan read; undefined: it found none, or there was no plan yet. */
  readonly idsPerMatch: number | undefined;
  /** Ids per entry of the table where it was scanned last; undefined: it was not. */
  readonly idsPerEntry: number | undefined;
  /** Whether a union found more than {@link keysUnitedMax} matches. */
  readonly hasManyMatches: boolean;
  /** The number of ids before the first expected match; undefined: none. */
  readonly firstMatch: bigint | undefined;
  readonly idsToMatch: number;
}

/** The statistics of the earlier plans. */
export interface Statistics extends KnownStatistics {
  /** The number of entries still wanted. */
  readonly missing: number;
  /** What this request has used up: entries of the table, index keys, and unions by density. */
  readonly entriesScanned: number;
  readonly keysMerged: number;
  readonly unions: number;
  /** Undefined: unknown, or more than {@link smallLedgerEntriesMax}. */
  readonly small?: LedgerSize | undefined;
}

/** Whether all entries of a selection are one range of an index. */
export function isOneRange(selection: LedgerSelection): boolean {
  return selection.kind === "all" || (selection.branches.length === 1 && selection.branches[0]?.other === undefined);
}

/** The next plan; undefined: the page is full, or the request has used up its bounds. */
export function choosePlan(selection: LedgerSelection, statistics: Statistics): Plan | undefined {
  const { missing, idsPerMatch, small } = statistics;
  if (missing <= 0 || statistics.keysMerged >= keysMergedMax) return undefined;
  const branches = selection.kind === "all" ? [] : selection.branches;
  const [branch] = branches;
  if (isOneRange(selection)) return { name: "range_scan", branch, entries: missing };
  if (branch === undefined) return undefined;
  if (small !== undefined) {
    return { name: "table_scan", branches, examined: small.entries, entries: missing, whole: small };
  }
  return idsPerMatch === undefined
    ? planUnknown(branches, statistics)
    : planByDensity(branches, statistics, idsPerMatch);
}

function planUnknown(branches: readonly Branch[], statistics: Statistics): Plan | undefined {
  if (branches.length <= branchesMergedMax) return merge(branches, statistics);
  const mayUnite = canUnite(branches) && !statistics.hasManyMatches;
  const isUnitedLate = branches.length > branchesUnitedFirstMax || branches.some(({ index }) => index === "class");
  if (mayUnite && !isUnitedLate) return unionOfAll(branches, statistics);
  if (statistics.entriesScanned === 0) {
    // A dense page is found within a few times its size, however many branches there are.
    const sample = Math.min(10 * branches.length, sampleEntriesMax, 6 * statistics.missing);
    return tableScan(branches, statistics, sample);
  }
  if (mayUnite) return unionOfAll(branches, statistics);
  return merge(branches, statistics) ?? tableScan(branches, statistics, entriesScannedMax);
}

function planByDensity(branches: readonly Branch[], statistics: Statistics, idsPerMatch: number): Plan | undefined {
  const { missing, idsPerEntry, entriesScanned } = statistics;
  const entriesPerMatch = idsPerEntry === undefined ? Number.POSITIVE_INFINITY : idsPerMatch / idsPerEntry;
  const ahead = missing * entriesPerMatch + (idsPerEntry === undefined ? 0 : statistics.idsToMatch / idsPerEntry);
  const scanCost = ahead * cost.scanned + missing * cost.scannedMatch;
  const isAffordable = entriesScanned + ahead <= entriesScannedMax;
  if (isAffordable && scanCost < branches.length * cost.branch + missing * cost.unitedMatch) {
    return tableScan(branches, statistics, 1.25 * ahead);
  }
  if (canUnite(branches)) {
    const isRare = idsPerEntry !== undefined && entriesPerMatch > rareEntriesPerMatch;
    if (isRare && !statistics.hasManyMatches) return unionOfAll(branches, statistics);
    if (statistics.unions < unionsMax) return unionByDensity(branches, statistics, idsPerMatch);
  }
  return merge(branches, statistics) ?? tableScan(branches, statistics, 1.25 * ahead);
}

/** A branch that restricts the other side too is only merged: its keys must be read one by one. */
function canUnite(branches: readonly Branch[]): boolean {
  return branches.length <= branchesMax && branches.every(({ other }) => other === undefined);
}

function merge(branches: readonly Branch[], { missing }: Statistics): Plan | undefined {
  return branches.length > branchesMax ? undefined : { name: "k_way_merge", branches, entries: missing };
}

function tableScan(
  branches: readonly Branch[],
  { missing, entriesScanned }: Statistics,
  entries: number,
): Plan | undefined {
  const left = entriesScannedMax - entriesScanned;
  const examined = Math.min(left, Math.ceil(Math.max(sampleEntriesMin, entries)));
  return left <= 0 ? undefined : { name: "table_scan", branches, examined, entries: missing };
}

function unionOfAll(branches: readonly Branch[], { missing }: Statistics): Plan {
  return { name: "index_union", branches, ids: undefined, keysMax: keysUnitedMax, entries: missing };
}

/** More ids than the page should take: a tenth, and three times the deviation of that many independent matches. */
function unionByDensity(branches: readonly Branch[], { missing, firstMatch }: Statistics, idsPerMatch: number): Plan {
  const ids = Math.ceil(idsPerMatch * (1.1 * missing + 3 * Math.sqrt(missing) + 4));
  return { name: "index_union", branches, ids, from: firstMatch, keysMax: 4 * missing + 64, entries: missing };
}

/** The result of a plan. */
export interface Outcome {
  /** All matches of the covered range, in the direction of the scan, without duplicates. */
  readonly rows: readonly EntryText[];
  /** The range that it did not cover. */
  readonly rest: IdRange;
  /** Entries or keys that it read. */
  readonly examined: number;
  /** Ids per entry of the table, from a table scan. */
  readonly idsPerEntry?: number;
  /** The ids that a union tried in vain, because they hold too many matches. */
  readonly gaveUp?: number;
}

/** The statistics after a plan that covered this many ids. */
export function learn(before: Statistics, plan: Plan, outcome: Outcome, ids: number): Statistics {
  const { rows, examined, gaveUp } = outcome;
  const isByDensity = plan.name === "index_union" && plan.ids !== undefined;
  const idsPerMatch = rows.length === 0 ? undefined : ids / rows.length;
  return {
    idsPerMatch: gaveUp === undefined ? idsPerMatch : denser(before, isByDensity ? gaveUp : undefined),
    idsPerEntry: outcome.idsPerEntry ?? before.idsPerEntry,
    hasManyMatches: before.hasManyMatches || (gaveUp !== undefined && !isByDensity),
    firstMatch: gaveUp === undefined ? undefined : before.firstMatch,
    idsToMatch: gaveUp === undefined ? 0 : before.idsToMatch,
    missing: before.missing - rows.length,
    entriesScanned: before.entriesScanned + (plan.name === "table_scan" ? examined : 0),
    keysMerged: before.keysMerged + (plan.name === "k_way_merge" ? examined : 0),
    unions: before.unions + (isByDensity ? 1 : 0),
  };
}

/** After too many matches in a range: a quarter of the expected ids, or of those that it had. */
function denser({ idsPerMatch, missing }: Statistics, ids: number | undefined): number | undefined {
  return idsPerMatch === undefined || ids === undefined ? idsPerMatch : Math.min(idsPerMatch, ids / missing) / 4;
}
