import type { Account } from "../service/messages.js";
import { type FirstRows, listAccounts, listBalanceChanges, listLedgerEntries, readPages } from "../service/service.js";
import type { AccountRange } from "./account-range.js";
import { type BalanceHistory, balanceHistory, type Moved, movedByType } from "./balances.js";

/** Accounts that are read. A party has two in each market that it trades in. */
export const accountsMax = 5_000;
/** Entries that are added up, the newest. */
export const entriesMax = 5_000;

/** Changes that are drawn, the newest: of all time there may be millions, of which each look reads as many. */
export function changesMax({ startNs }: AccountRange): number {
  return startNs === undefined ? 1_000 : 5_000;
}

const before = (timeNs: bigint) => String(timeNs - 1n);

/** The accounts of a filter, as of a time in nanoseconds, or now. @throws {ServiceError} */
export function readAccounts(filter: URLSearchParams, asOf = ""): Promise<FirstRows<Account>> {
  return readPages(listAccounts, [...filter, ["asOf", asOf]], accountsMax);
}

/** The accounts of a filter at the bounds that a range has, its start first. @throws {ServiceError} */
export function readBounds(filter: URLSearchParams, { startNs, endNs }: AccountRange): Promise<FirstRows<Account>[]> {
  const times = [startNs, endNs].filter((timeNs) => timeNs !== undefined);
  return Promise.all(times.map((timeNs) => readAccounts(filter, before(timeNs))));
}

/** The newest changes of a range. */
export interface AccountHistory extends BalanceHistory {
  /** By how much each change moved its account, by the change's cursor. */
  readonly moveOf: ReadonlyMap<string, bigint>;
  /** Since when the history is known, in nanoseconds; undefined: it has no beginning. */
  readonly since: string | undefined;
  /** Whether there are older changes in the range. */
  readonly isCut: boolean;
}

/** Adds up the newest changes of a range. @throws {ServiceError} */
export async function readHistory(
  filter: URLSearchParams,
  range: URLSearchParams,
  bounds: AccountRange,
): Promise<AccountHistory> {
  const { startNs } = bounds;
  const { edges, isWhole } = await readPages(listBalanceChanges, [...filter, ...range], changesMax(bounds));
  // The oldest block of a list that is cut may lack changes: it is what the others start from.
  const cutAt = isWhole ? undefined : edges.at(-1)?.node.timestamp;
  const drawn = edges.filter(({ node }) => node.timestamp !== cutAt).reverse();
  const asOf = cutAt ?? (startNs === undefined ? undefined : before(startNs));
  const start = asOf === undefined ? [] : (await readAccounts(filter, asOf)).edges;
  const history = balanceHistory(
    start.map(({ node }) => node),
    drawn.map(({ node }) => node),
  );
  const moveOf = new Map(drawn.map(({ cursor }, index) => [cursor, history.moves[index] ?? 0n]));
  return { ...history, moveOf, since: cutAt ?? startNs?.toString(), isCut: !isWhole };
}

/** What the newest entries of a query moved, by their types. */
export interface MovedSums {
  readonly types: readonly Moved[];
  /** Whether there are no older entries. */
  readonly isWhole: boolean;
}

/** Adds up the entries of accounts of one asset. @throws {ServiceError} */
export async function readMoved(filter: URLSearchParams, entries: URLSearchParams): Promise<MovedSums> {
  const { edges, isWhole } = await readPages(listLedgerEntries, [...entries], entriesMax);
  const types = movedByType(
    filter,
    edges.map(({ node }) => node),
  );
  return { types, isWhole };
}
