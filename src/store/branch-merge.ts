import type { Branch } from "./ledger-selection.js";
import type { PlacedConnection } from "./placed-read.js";

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

/** A row of `ledger_entry`, as far as answers need it. */
export interface EntryRow {
  readonly id: bigint;
  readonly from_account: number;
  readonly to_account: number;
  readonly class_id: number;
  readonly time_ns: bigint;
  readonly quantity: string;
  readonly from_balance: string;
  readonly to_balance: string;
}

/** The columns of an {@link EntryRow}. */
export const entryColumns = "id, from_account, to_account, class_id, time_ns, quantity, from_balance, to_balance";

/** What was found. */
export interface ScannedEntries {
  /** In the direction of the walk, without duplicates, at most as many as were wanted. */
  readonly rows: readonly EntryRow[];
  /** The last id examined, when the bound was hit before enough were found; undefined: `rows` is all that was wanted. */
  readonly reached: bigint | undefined;
}

/** An entry of a branch; the columns beyond the index are there only where they were asked for. */
interface BranchRow extends EntryRow {
  /** A literal: INT to MariaDB, BIGINT to MySQL. */
  readonly branch: number | bigint;
}

/**
 * The first `want` entries of the union of branches: reads a few of each, then more of those that hold the merge up,
 * four times as many each round. Reads about four entries for each that it gives, and at least one per branch. Where a
 * branch is restricted, only the index is read until it is known which entries are wanted.
 */
export async function mergeBranches(
  connection: PlacedConnection,
  branches: readonly Branch[],
  range: IdRange,
  want: number,
  examinedMax = keysExaminedMax,
): Promise<ScannedEntries> {
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
    if (merge.examined >= examinedMax) return merge.outcome(connection, open);
  }
  return merge.outcome(connection, []);
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
  readonly #restricted: boolean;
  #found: EntryRow[] = [];
  examined = 0;

  constructor(branches: readonly Branch[], range: IdRange, want: number) {
    this.#range = range;
    this.#want = want;
    this.#restricted = branches.some(({ other }) => other !== undefined);
    this.#cursors = branches.map((branch, number) => new BranchCursor(branch, number));
  }

  /** Branches that may still hold one of the wanted ids. */
  open(): BranchCursor[] {
    this.#settle();
    const worst = this.#found[this.#want - 1]?.id;
    return this.#cursors.filter(
      ({ exhausted, last }) =>
        !exhausted && (last === undefined || worst === undefined || this.#compare(last, worst) < 0),
    );
  }

  async read(connection: PlacedConnection, cursors: readonly BranchCursor[], limit: number): Promise<void> {
    const rows = await connection.query<BranchRow>(
      cursors.map((cursor) => `(${this.#branchSql(cursor, limit)})`).join(" UNION ALL "),
    );
    this.examined += rows.length;
    const counts = new Map<number, number>();
    for (const row of rows) {
      const { id } = row;
      const number = Number(row.branch);
      const cursor = this.#cursors[number];
      if (cursor === undefined) continue;
      counts.set(number, (counts.get(number) ?? 0) + 1);
      if (cursor.last === undefined || this.#compare(cursor.last, id) < 0) cursor.last = id;
      const other = cursor.branch.index === "from" ? row.to_account : row.from_account;
      if (cursor.branch.other?.has(other) !== false) this.#found.push(row);
    }
    for (const cursor of cursors) cursor.exhausted = (counts.get(cursor.number) ?? 0) < limit;
  }

  /** The entries so far; with branches still open, those up to where all of them have been read. */
  async outcome(connection: PlacedConnection, open: readonly BranchCursor[]): Promise<ScannedEntries> {
    let reached: bigint | undefined;
    for (const { last } of open) {
      if (last !== undefined && (reached === undefined || this.#compare(last, reached) < 0)) reached = last;
    }
    const limit = reached;
    const safe = limit === undefined ? this.#found : this.#found.filter(({ id }) => this.#compare(id, limit) <= 0);
    const rows = safe.slice(0, this.#want);
    if (!this.#restricted || rows.length === 0) return { rows, reached };
    const ids = rows.map(({ id }) => id).join(",");
    const order = this.#range.descending ? "DESC" : "ASC";
    const whole = await connection.query<EntryRow>(
      `SELECT ${entryColumns} FROM ledger_entry WHERE ${connection.holds} AND id IN (${ids}) ORDER BY id ${order}`,
    );
    return { rows: whole, reached };
  }

  #settle(): void {
    this.#found.sort((a, b) => this.#compare(a.id, b.id));
    this.#found = this.#found.filter((row, i, all) => i === 0 || all[i - 1]?.id !== row.id);
  }

  #compare(a: bigint, b: bigint): number {
    if (a === b) return 0;
    return a < b === this.#range.descending ? 1 : -1;
  }

  #branchSql(cursor: BranchCursor, limit: number): string {
    const { branch, number, last } = cursor;
    const { low, high, descending } = this.#range;
    const from = descending || last === undefined ? low : last + 1n;
    const to = descending && last !== undefined ? last - 1n : high;
    const columns = this.#restricted ? "id, from_account, to_account" : entryColumns;
    return `SELECT ${number} AS branch, ${columns} FROM ledger_entry ${branchTable(branch)}
 AND id >= ${from} AND id <= ${to} ORDER BY id ${descending ? "DESC" : "ASC"} LIMIT ${limit}`;
  }
}

/** `FORCE INDEX … WHERE …` of a branch, without its range of ids. */
export function branchTable(branch: Branch): string {
  const account = branch.index === "class" ? "" : `${branch.index}_account = ${branch.accountId} AND `;
  return `FORCE INDEX (ledger_entry_${branch.index}) WHERE ${account}class_id = ${branch.classId}`;
}
