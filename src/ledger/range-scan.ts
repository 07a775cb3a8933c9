import { beyond, type IdRange, idsSql, orderSql } from "../store/id-range.js";
import { branchSql } from "./branch-sql.js";
import { entrySql, idOf } from "./entry-row.js";
import type { LedgerView } from "./ledger-view.js";
import type { Outcome, Plan } from "./plan.js";

/** Runs a `range_scan`: one statement that reads only what it returns. */
export async function scanRange(
  view: LedgerView,
  { branch, entries }: Extract<Plan, { name: "range_scan" }>,
  range: IdRange,
): Promise<Outcome> {
  const index = branch === undefined ? "FORCE INDEX (PRIMARY) WHERE TRUE" : branchSql(branch);
  const rows = await view.read(
    `SELECT ${entrySql()} FROM ledger_entry ${index} ${idsSql(range)} ${orderSql(range)} LIMIT ${entries}`,
  );
  const last = rows.length < entries ? undefined : rows.at(-1);
  return { rows, examined: rows.length, rest: beyond(range, last === undefined ? undefined : idOf(last)) };
}
