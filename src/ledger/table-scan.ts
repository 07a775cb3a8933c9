import { asText } from "../store/connection/column.js";
import { rowCondition } from "./branch-sql.js";
import { entrySql, idOf } from "./entry-row.js";
import { beyond, type IdRange, idsIn, idsSql, orderSql, upTo } from "./id-range.js";
import type { LedgerView } from "./ledger-view.js";
import type { Outcome, Plan } from "./plan.js";

/**
 * Runs a `table_scan`: one statement finds where the next entries end, another takes those that match. A LIMIT alone
 * would not bound what is examined.
 */
export async function scanTable(
  view: LedgerView,
  { branches, examined, entries }: Extract<Plan, { name: "table_scan" }>,
  range: IdRange,
): Promise<Outcome> {
  const [end] = await view.read(
    `SELECT ${asText("id")} FROM ledger_entry FORCE INDEX (PRIMARY) WHERE TRUE ${idsSql(range)} ${orderSql(range)} LIMIT 1 OFFSET ${examined}`,
  );
  const visible = view.clip(range);
  const piece = end === undefined ? visible : upTo(visible, BigInt(end));
  const rows = await view.read(
    `SELECT ${entrySql()} FROM ledger_entry FORCE INDEX (PRIMARY)
     WHERE ${rowCondition(branches)} ${idsSql(piece)} ${orderSql(piece)} LIMIT ${entries}`,
  );
  const last = rows.length < entries ? end : rows.at(-1);
  const rest = beyond(visible, last === undefined ? undefined : idOf(last));
  return { rows, examined, rest, idsPerEntry: idsIn(piece) / examined };
}
