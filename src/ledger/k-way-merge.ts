import { type BranchCursor, kWayMerge } from "../domain/k-way-merge.js";
import { asText } from "../store/connection/column.js";
import { beyond, type IdRange, idsSql, orderSql } from "../store/id-range.js";
import { branchSql } from "./branch-sql.js";
import { compareEntries, type EntryText, entrySql, idOf, inOrder, parseEntry } from "./entry-row.js";
import type { LedgerView } from "./ledger-view.js";
import { keysMergedMax, type Outcome, type Plan } from "./plan.js";
import type { Branch } from "./selection.js";

/** Runs a `k_way_merge`. Of a restricted branch, only the index is read until the results are known. */
export async function mergeBranches(
  view: LedgerView,
  { branches, entries: want }: Extract<Plan, { name: "k_way_merge" }>,
  range: IdRange,
  keysMax = keysMergedMax,
): Promise<Outcome> {
  // Whether a branch has conditions on the other account.
  const isRestricted = branches.some(({ other }) => other !== undefined);
  const read = async (cursors: readonly BranchCursor<Branch, EntryText>[], limit: number) => {
    const selects = cursors.map((cursor, number) => selectOf(view, cursor, { number, limit, range, isRestricted }));
    return (await view.read(...selects)).map((text) => {
      const at = text.indexOf(" ");
      const [number, key] = [Number(text.slice(0, at)), text.slice(at + 1)];
      const branch = cursors[number]?.branch;
      return { number, key, matches: branch !== undefined && matches(branch, key), read: 1 };
    });
  };
  const compare = (a: EntryText, b: EntryText) => (range.descending ? compareEntries(b, a) : compareEntries(a, b));
  const merged = await kWayMerge({ branches, want, keysMax, isSparse: isRestricted, compare, read });
  const { keys, reached, examined } = merged;
  const last = keys.length === want ? keys.at(-1) : reached;
  return {
    rows: isRestricted && keys.length > 0 ? await wholeRows(view, keys, range) : [...keys],
    examined,
    rest: beyond(range, last === undefined ? undefined : idOf(last)),
  };
}

/** The rows of which only the keys were read. */
async function wholeRows(view: LedgerView, keys: readonly EntryText[], range: IdRange): Promise<EntryText[]> {
  const ids = keys.map(idOf).join(",");
  const texts = await view.read(`SELECT ${entrySql()} FROM ledger_entry WHERE id IN (${ids})`);
  return inOrder(texts, range.descending);
}

interface BranchRead {
  readonly number: number;
  readonly limit: number;
  readonly range: IdRange;
  readonly isRestricted: boolean;
}

function selectOf(
  view: LedgerView,
  { branch, last }: BranchCursor<Branch, EntryText>,
  { number, limit, range, isRestricted }: BranchRead,
): string {
  const visible = view.clip(range);
  const ids = idsSql(last === undefined ? visible : beyond(visible, idOf(last)));
  const columns = isRestricted
    ? asText(`CONCAT_WS(' ', ${number}, id, from_account, to_account)`)
    : entrySql("", `${number}, `);
  return `SELECT ${columns} FROM ledger_entry ${branchSql(branch)} ${ids} ${orderSql(visible)} LIMIT ${limit}`;
}

/** Whether an entry of a branch has the account on its other side that is wanted. */
function matches({ index, other }: Branch, entry: EntryText): boolean {
  if (other === undefined) return true;
  const { from, to } = parseEntry(entry);
  return other === (index === "from" ? to : from);
}
