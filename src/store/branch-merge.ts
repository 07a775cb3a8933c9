import type { Connection } from "./database.js";
import type { Branch } from "./ledger-selection.js";

/** Branches that one statement reads: each is an open table to the server, and its cache of them is shared by all. */
export const branchesPerStatement = 64;

/** Keys that one merge reads at most beyond what its first round does: the bound on rare intersections. */
export const keysExaminedMax = 40_000;

/** A stretch of entry ids, both ends inclusive, and the direction in which it is walked. */
export interface IdRange {
  readonly low: bigint;
  readonly high: bigint;
  readonly descending: boolean;
}

/** What a merge found. */
export interface MergedIds {
  /** In the direction of the walk, without duplicates, at most as many as were wanted. */
  readonly ids: readonly bigint[];
  /** The last id examined, when the bound was hit before enough were found; undefined: `ids` is all that was wanted. */
  readonly reached: bigint | undefined;
}

interface KeyRow {
  readonly branch: number;
  readonly id: bigint;
  readonly other: number;
}

/**
 * The first `want` ids of the union of branches: reads a few keys of each, then more of those that hold the merge up,
 * four times as many each round. Reads about four keys for each id it gives, and at least one per branch.
 */
export async function mergeBranches(
  connection: Connection,
  branches: readonly Branch[],
  range: IdRange,
  want: number,
): Promise<MergedIds> {
  const merge = new Merge(branches, range, want);
  let share = Math.ceil((2 * want) / branches.length) + 2;
  let open = merge.open();
  while (open.length > 0) {
    const limit = Math.min(share, want);
    for (let i = 0; i < open.length; i += branchesPerStatement) {
      await merge.read(connection, open.slice(i, i + branchesPerStatement), limit);
    }
    share *= 4;
    open = merge.open();
    if (merge.examined >= keysExaminedMax) return merge.outcome(open);
  }
  return merge.outcome([]);
}

class BranchCursor {
  readonly branch: Branch;
  readonly number: number;
  /** The last id read; undefined before the first. */
  last: bigint | undefined;
  exhausted = false;

  constructor(branch: Branch, number: number) {
    this.branch = branch;
    this.number = number;
  }
}

class Merge {
  readonly #range: IdRange;
  readonly #want: number;
  readonly #cursors: readonly BranchCursor[];
  #found: bigint[] = [];
  examined = 0;

  constructor(branches: readonly Branch[], range: IdRange, want: number) {
    this.#range = range;
    this.#want = want;
    this.#cursors = branches.map((branch, number) => new BranchCursor(branch, number));
  }

  /** Branches that may still hold one of the wanted ids. */
  open(): BranchCursor[] {
    this.#settle();
    const worst = this.#found.length >= this.#want ? this.#found[this.#want - 1] : undefined;
    return this.#cursors.filter(
      ({ exhausted, last }) =>
        !exhausted && (last === undefined || worst === undefined || this.#compare(last, worst) < 0),
    );
  }

  async read(connection: Connection, cursors: readonly BranchCursor[], limit: number): Promise<void> {
    const restricted = cursors.some(({ branch }) => branch.other !== undefined);
    const rows = await connection.query<KeyRow>(
      cursors.map((cursor) => `(${this.#branchSql(cursor, limit, restricted)})`).join(" UNION ALL "),
    );
    this.examined += rows.length;
    const counts = new Map<number, number>();
    for (const { branch: number, id, other } of rows) {
      const cursor = this.#cursors[number];
      if (cursor === undefined) continue;
      counts.set(number, (counts.get(number) ?? 0) + 1);
      if (cursor.last === undefined || this.#compare(cursor.last, id) < 0) cursor.last = id;
      if (cursor.branch.other?.has(other) !== false) this.#found.push(id);
    }
    for (const cursor of cursors) cursor.exhausted = (counts.get(cursor.number) ?? 0) < limit;
  }

  /** The ids so far; with branches still open, those up to where all of them have been read. */
  outcome(open: readonly BranchCursor[]): MergedIds {
    let reached: bigint | undefined;
    for (const { last } of open) {
      if (last !== undefined && (reached === undefined || this.#compare(last, reached) < 0)) reached = last;
    }
    const limit = reached;
    const ids = limit === undefined ? this.#found : this.#found.filter((id) => this.#compare(id, limit) <= 0);
    return { ids: ids.slice(0, this.#want), reached };
  }

  #settle(): void {
    this.#found.sort((a, b) => this.#compare(a, b));
    this.#found = this.#found.filter((id, i, all) => i === 0 || all[i - 1] !== id);
  }

  #compare(a: bigint, b: bigint): number {
    if (a === b) return 0;
    return a < b === this.#range.descending ? 1 : -1;
  }

  #branchSql(cursor: BranchCursor, limit: number, restricted: boolean): string {
    const { branch, number, last } = cursor;
    const { low, high, descending } = this.#range;
    const from = descending ? low : last === undefined ? low : last + 1n;
    const to = descending ? (last === undefined ? high : last - 1n) : high;
    const other =
      restricted && branch.index !== "class" ? (branch.index === "from" ? "to_account" : "from_account") : "0";
    return `SELECT ${number} AS branch, id, ${other} AS other FROM ledger_entry ${branchTable(branch)} AND id >= ${from} AND id <= ${to}
 ORDER BY id ${descending ? "DESC" : "ASC"} LIMIT ${limit}`;
  }
}

/** `FORCE INDEX … WHERE …` of a branch, without its range of ids. */
export function branchTable(branch: Branch): string {
  const account = branch.index === "class" ? "" : `${branch.index}_account = ${branch.accountId} AND `;
  return `FORCE INDEX (ledger_entry_${branch.index}) WHERE ${account}class_id = ${branch.classId}`;
}
