import { firstIdOfBlock } from "../domain/block-position.js";
import { Failure } from "../domain/failure.js";
import { groupBy } from "../domain/group-by.js";
import { branchesPerStatement } from "../domain/k-way-merge.js";
import { asText } from "../store/connection/column.js";
import type { Account, AccountDirectory } from "./account-directory.js";
import { entrySql, parseEntry } from "./entry-row.js";
import type { LedgerView } from "./ledger-view.js";

/** An account, and the id before which its newest entry is looked for. */
export interface BalanceRequest {
  readonly account: Account;
  readonly before: bigint;
}

/**
 * The balances of accounts: of each that of its newest entry, on either side; "0" if there is none. One descending read
 * of an index for each account, class and side.
 * @returns by account number; undefined: the entry was dropped
 */
export async function readBalances(
  view: LedgerView,
  directory: AccountDirectory,
  requests: readonly BalanceRequest[],
): Promise<Map<number, string | undefined>> {
  const newest = await readNewestEntries(view, directory, requests);
  const balances = new Map<number, string | undefined>();
  const without = requests.filter(({ account }) => !newest.has(account.id));
  const firstAccount = without.length === 0 ? 0 : await readFirstKept(view);
  for (const { account } of without) balances.set(account.id, account.id >= firstAccount ? "0" : undefined);
  if (newest.size === 0) return balances;
  const ids = [...new Set(newest.values())];
  const texts = await view.read(`SELECT ${entrySql()} FROM ledger_entry WHERE id IN (${ids.join(",")})`);
  const entries = new Map(texts.map(parseEntry).map((entry) => [BigInt(entry.id), entry]));
  for (const [account, id] of newest) {
    const entry = entries.get(id);
    // Dropped between two statements: the read is repeated.
    balances.set(account, entry?.to === account ? entry.toBalance : entry?.fromBalance);
  }
  return balances;
}

/** FAILED_PRECONDITION, because the entry was dropped that says what an account holds. */
export function balanceNotKept({ partyId, kind }: Account): Failure {
  const message = `the balance of an account of ${partyId} in ${kind.assetId} is not known: its newest ledger entry up to that time was dropped; ask for other accounts, or a later time`;
  return new Failure("failed_precondition", message, { reason: "LEDGER_NOT_RETAINED" });
}

async function readNewestEntries(
  view: LedgerView,
  directory: AccountDirectory,
  requests: readonly BalanceRequest[],
): Promise<Map<number, bigint>> {
  const { classes } = directory;
  const sides = (["from", "to"] as const).map((side) => {
    return { side, classesOf: groupBy(classes, (entryClass) => entryClass[side]) };
  });
  const selects = [...groupBy(requests, ({ account }) => account.kind)].flatMap(([kind, group]) => {
    return sides.flatMap(({ side, classesOf }) => {
      const ids = classesOf.get(kind)?.map(({ id }) => id);
      return ids === undefined ? [] : [newestSql(view, { side, classes: ids }, group)];
    });
  });
  const newest = new Map<number, bigint>();
  for (let i = 0; i < selects.length; i += branchesPerStatement) {
    for (const text of await view.read(...selects.slice(i, i + branchesPerStatement))) {
      const [account, id] = text.split(" ");
      if (id === undefined) continue;
      const known = newest.get(Number(account));
      if (known === undefined || known < BigInt(id)) newest.set(Number(account), BigInt(id));
    }
  }
  return newest;
}

/** A row for each account and class, with the id if there is one. The subquery is one step in an index. */
function newestSql(
  view: LedgerView,
  { side, classes }: { readonly side: "from" | "to"; readonly classes: readonly number[] },
  requests: readonly BalanceRequest[],
): string {
  const wanted = requests.map(({ account, before }) => `SELECT ${account.id} AS account_id, ${before} AS before_id`);
  const newest = `SELECT e.id FROM ledger_entry AS e FORCE INDEX (ledger_entry_${side})
    WHERE e.${side}_account = wanted.account_id AND e.class_id = c.class_id AND e.id < wanted.before_id
      AND e.id >= ${firstIdOfBlock(view.oldest.height)} ORDER BY e.id DESC LIMIT 1`;
  return `SELECT ${asText(`CONCAT_WS(' ', wanted.account_id, (${newest}))`)}
    FROM (${wanted.join(" UNION ALL ")}) AS wanted JOIN entry_class AS c ON c.class_id IN (${classes.join(",")})`;
}

/** The lowest number of an account all of whose entries are kept: those before it were there when others were dropped. */
async function readFirstKept(view: LedgerView): Promise<number> {
  const { height } = view.oldest;
  if (height === 0n) return 0;
  const accountMax = `(SELECT account_max FROM block WHERE height < ${height} ORDER BY height DESC LIMIT 1)`;
  const [text] = await view.read(`SELECT ${asText(`COALESCE(${accountMax}, 'none')`)}`);
  return text === undefined || text === "none" ? Number.POSITIVE_INFINITY : Number(text) + 1;
}
