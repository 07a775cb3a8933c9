import { asText } from "../store/connection/column.js";
import { beyond, type IdRange, idsIn, idsSql, orderSql, upTo } from "../store/id-range.js";
import { rowCondition } from "./branch-sql.js";
import { type EntryText, entrySql, idOf } from "./entry-row.js";
import type { LedgerView } from "./ledger-view.js";
import type { LedgerSize, Outcome, Plan } from "./plan.js";
import type { Branch } from "./selection.js";

type TableScan = Extract<Plan, { name: "table_scan" }>;

/**
 * Runs a `table_scan`: one statement finds where the next entries end, another takes those that match. A LIMIT alone
 * would not bound what is examined. All entries of a small ledger are bound enough.
 */
export async function scanTable(view: LedgerView, plan: TableScan, range: IdRange): Promise<Outcome> {
  if (plan.whole !== undefined) return scanWhole(view, plan, plan.whole, range);
  const { branches, examined, entries } = plan;
  const [end] = await view.read(
    `SELECT ${asText("id")} FROM ledger_entry FORCE INDEX (PRIMARY) WHERE TRUE ${idsSql(range)} ${orderSql(range)} LIMIT 1 OFFSET ${examined}`,
  );
  const visible = view.clip(range);
  const piece = end === undefined ? visible : upTo(visible, BigInt(end));
  const rows = await readMatches(view, branches, piece, entries);
  const last = rows.length < entries ? end : rows.at(-1);
  const rest = beyond(visible, last === undefined ? undefined : idOf(last));
  return { rows, examined, rest, idsPerEntry: idsIn(piece) / examined };
}

/** Newer entries are left out: nothing bounds how many there are by now. */
async function scanWhole(
  view: LedgerView,
  { branches, examined, entries }: TableScan,
  { newest }: LedgerSize,
  range: IdRange,
): Promise<Outcome> {
  const counted = { ...range, high: range.high < newest ? range.high : newest };
  const rows = await readMatches(view, branches, counted, entries);
  const last = rows.length < entries ? undefined : rows.at(-1);
  return { rows, examined, rest: beyond(range, last === undefined ? undefined : idOf(last)) };
}

function readMatches(
  view: LedgerView,
  branches: readonly Branch[],
  range: IdRange,
  entries: number,
): Promise<EntryText[]> {
  return view.read(
    `SELECT ${entrySql()} FROM ledger_entry FORCE INDEX (PRIMARY)
     WHERE ${rowCondition(branches)} ${idsSql(range)} ${orderSql(range)} LIMIT ${entries}`,
  );
}
