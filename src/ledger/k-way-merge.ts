import { asText } from "../store/connection/column.js";
import { branchSql } from "./branch-sql.js";
import { compareEntries, type EntryText, entrySql, idOf, inOrder, parseEntry } from "./entry-row.js";
import { beyond, type IdRange, idsSql, orderSql } from "./id-range.js";
import type { LedgerView } from "./ledger-view.js";
import { keysMergedMax, type Outcome, type Plan } from "./plan.js";
import type { Branch } from "./selection.js";

/** Branches of one statement. The server opens a table for each, and all connections share its table cache. */
export const branchesPerStatement = 64;

/**
 * Runs a `k_way_merge`: reads a few entries of each branch, then four times as many of the branches that delay the
 * merge. It reads about four entries for each result, and at least one per branch. Of a restricted branch, only the
 * index is read until the results are known.
 */
export async function mergeBranches(
  view: LedgerView,
  { branches, entries }: Extract<Plan, { name: "k_way_merge" }>,
  range: IdRange,
  keysMax = keysMergedMax,
): Promise<Outcome> {
  const merge = new Merge(view, branches, range, entries);
  let share = Math.ceil((2 * entries) / branches.length) + 2;
  let open = merge.open();
  while (open.length > 0 && merge.examined < keysMax) {
    // Hardly any key of a restricted branch may match, so only the remaining bound limits its share.
    const limit = Math.min(share, merge.isRestricted ? Math.ceil((keysMax - merge.examined) / open.length) : entries);
    for (let i = 0; i < open.length; i += branchesPerStatement) {
      await merge.read(open.slice(i, i + branchesPerStatement), limit);
    }
    share *= 4;
    open = merge.open();
  }
  return merge.outcome(open);
}

interface BranchCursor {
  readonly branch: Branch;
  readonly number: number;
  /** The last entry that was read; undefined before the first. */
  last: EntryText | undefined;
  isExhausted: boolean;
}

class Merge {
  examined = 0;
  /** Whether a branch has conditions on the other account. */
  readonly isRestricted: boolean;
  readonly #view: LedgerView;
  readonly #range: IdRange;
  readonly #want: number;
  readonly #cursors: readonly BranchCursor[];
  #found: EntryText[] = [];

  constructor(view: LedgerView, branches: readonly Branch[], range: IdRange, want: number) {
    this.#view = view;
    this.#range = range;
    this.#want = want;
    this.isRestricted = branches.some(({ other }) => other !== undefined);
    this.#cursors = branches.map((branch, number) => ({ branch, number, last: undefined, isExhausted: false }));
  }

  /** Branches that may still hold one of the wanted ids. */
  open(): BranchCursor[] {
    this.#found = inOrder(this.#found, this.#range.descending);
    const worst = this.#found[this.#want - 1];
    return this.#cursors.filter(
      ({ isExhausted, last }) =>
        !isExhausted && (last === undefined || worst === undefined || this.#compare(last, worst) < 0),
    );
  }

  async read(cursors: readonly BranchCursor[], limit: number): Promise<void> {
    const texts = await this.#view.read(...cursors.map((cursor) => this.#branchSql(cursor, limit)));
    this.examined += texts.length;
    const counts = new Map<BranchCursor, number>();
    for (const text of texts) {
      const at = text.indexOf(" ");
      const cursor = this.#cursors[Number(text.slice(0, at))];
      if (cursor === undefined) continue;
      const entry = text.slice(at + 1);
      counts.set(cursor, (counts.get(cursor) ?? 0) + 1);
      if (cursor.last === undefined || this.#compare(cursor.last, entry) < 0) cursor.last = entry;
      if (matches(cursor.branch, entry)) this.#found.push(entry);
    }
    for (const cursor of cursors) cursor.isExhausted = (counts.get(cursor) ?? 0) < limit;
  }

  /** The entries so far. While branches are open, only those up to where all have been read. */
  async outcome(open: readonly BranchCursor[]): Promise<Outcome> {
    let reached: EntryText | undefined;
    for (const { last } of open) {
      if (last !== undefined && (reached === undefined || this.#compare(last, reached) < 0)) reached = last;
    }
    const limit = reached;
    const safe = limit === undefined ? this.#found : this.#found.filter((entry) => this.#compare(entry, limit) <= 0);
    const rows = safe.slice(0, this.#want);
    const last = rows.length === this.#want ? rows.at(-1) : reached;
    return {
      rows: this.isRestricted && rows.length > 0 ? await this.#whole(rows) : rows,
      examined: this.examined,
      rest: beyond(this.#range, last === undefined ? undefined : idOf(last)),
    };
  }

  /** The rows of which only the keys were read. */
  async #whole(keys: readonly EntryText[]): Promise<EntryText[]> {
    const ids = keys.map(idOf).join(",");
    const texts = await this.#view.read(`SELECT ${entrySql()} FROM ledger_entry WHERE id IN (${ids})`);
    return inOrder(texts, this.#range.descending);
  }

  #compare(a: EntryText, b: EntryText): number {
    return this.#range.descending ? compareEntries(b, a) : compareEntries(a, b);
  }

  #branchSql({ branch, number, last }: BranchCursor, limit: number): string {
    const visible = this.#view.clip(this.#range);
    const ids = idsSql(last === undefined ? visible : beyond(visible, idOf(last)));
    const columns = this.isRestricted
      ? asText(`CONCAT_WS(' ', ${number}, id, from_account, to_account)`)
      : entrySql("", `${number}, `);
    return `SELECT ${columns} FROM ledger_entry ${branchSql(branch)} ${ids} ${orderSql(visible)} LIMIT ${limit}`;
  }
}

/** Whether an entry of a branch has the account on its other side that is wanted. */
function matches({ index, other }: Branch, entry: EntryText): boolean {
  if (other === undefined) return true;
  const { from, to } = parseEntry(entry);
  return other === (index === "from" ? to : from);
}
