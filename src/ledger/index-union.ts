import { beyond, type IdRange, idsIn, idsSql, orderSql, upTo } from "../store/id-range.js";
import { unionSql } from "./branch-sql.js";
import { entrySql, idOf, inOrder } from "./entry-row.js";
import type { LedgerView } from "./ledger-view.js";
import type { Outcome, Plan } from "./plan.js";

type IndexUnion = Extract<Plan, { name: "index_union" }>;

/**
 * Runs an `index_union`: one statement reads the branches of each index as a list of ranges, at a sixth of the cost of
 * a `UNION` with a part per branch.
 */
export function uniteBranches(view: LedgerView, plan: IndexUnion, range: IdRange): Promise<Outcome> {
  return plan.ids === undefined ? uniteAll(view, plan, range) : unitePiece(view, plan, BigInt(plan.ids), range);
}

/** The server orders the keys and leaves out duplicates, for less than that costs here. */
async function unitePiece(view: LedgerView, plan: IndexUnion, ids: bigint, range: IdRange): Promise<Outcome> {
  const { low, high, descending } = view.clip(range);
  const visible = { low, high, descending };
  const start = descending ? high : low;
  const from = plan.from === undefined || (descending ? plan.from > high : plan.from < low) ? start : plan.from;
  const end = descending ? from - ids + 1n : from + ids - 1n;
  const isAll = descending ? end <= low : end >= high;
  const piece = isAll ? visible : upTo(visible, end);
  const rows = await view.read(
    `SELECT STRAIGHT_JOIN ${entrySql("e.")} FROM (${keysSql(plan, piece)}) AS k
     JOIN ledger_entry AS e ON e.id = k.id ${orderSql(piece, "k.")} LIMIT ${plan.keysMax + 1}`,
  );
  const examined = rows.length;
  if (examined > plan.keysMax) return { rows: [], examined, rest: range, gaveUp: idsIn(piece) };
  return { rows, examined, rest: beyond(visible, isAll ? undefined : end) };
}

/** If there are too many matches, one row says so, which costs less than a useless page. */
async function uniteAll(view: LedgerView, plan: IndexUnion, range: IdRange): Promise<Outcome> {
  const { keysMax, entries } = plan;
  const texts = await view.read(
    `SELECT STRAIGHT_JOIN ${entrySql("e.", "k.matches, ")} FROM (
       SELECT id, COUNT(*) OVER () AS matches, ROW_NUMBER() OVER (${orderSql(range)}) AS place
       FROM (${keysSql(plan, range)}) AS m ${orderSql(range)} LIMIT ${entries}
     ) AS k JOIN ledger_entry AS e ON e.id = k.id WHERE k.matches <= ${keysMax} OR k.place = 1`,
  );
  const [first = "0"] = texts;
  const examined = Number(first.slice(0, first.indexOf(" ")));
  if (examined > keysMax) return { rows: [], examined, rest: range, gaveUp: idsIn(view.clip(range)) };
  const found = texts.map((text) => text.slice(text.indexOf(" ") + 1));
  const rows = inOrder(found, range.descending);
  const last = rows.length < entries ? undefined : rows.at(-1);
  return { rows, examined, rest: beyond(range, last === undefined ? undefined : idOf(last)) };
}

/** The ids of all matches in a range, each once: of each index, up to one more than `keysMax`. */
function keysSql({ branches, keysMax }: IndexUnion, range: IdRange): string {
  return unionSql(branches)
    .map((part) => `(SELECT id FROM ledger_entry ${part} ${idsSql(range)} LIMIT ${keysMax + 1})`)
    .join(" UNION ");
}
