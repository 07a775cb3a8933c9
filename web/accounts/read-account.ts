import { pageSize } from "../components/pager.js";
import type { Account, BalanceChange, Connection } from "../service/messages.js";
import {
  type FirstRows,
  listAccounts,
  listBalanceChanges,
  listLedgerEntries,
  pagesOf,
  type Query,
  readPages,
  ServiceError,
} from "../service/service.js";
import type { AccountRange } from "./account-range.js";
import { addMoved, type BalanceHistory, balanceHistory, type Moved, mostMoved } from "./balances.js";

/** Accounts that are read. A party has two in each market that it trades in. */
export const accountsMax = 5_000;
/** Entries that are added up, the newest. A page of 5,000 takes about 0.1 s, all of them 3 s. */
const entriesMax = 100_000;

/** Changes that are drawn, the newest: of all time there may be millions, of which each look reads as many. */
export function changesMax({ startNs }: AccountRange): number {
  return startNs === undefined ? 1_000 : 5_000;
}

const before = (timeNs: bigint) => String(timeNs - 1n);

/** The accounts of a filter as of a time in nanoseconds. @throws {ServiceError} */
function readAccounts(filter: URLSearchParams, asOf: string, signal: AbortSignal): Promise<FirstRows<Account>> {
  return readPages(listAccounts, [...filter, ["asOf", asOf]], accountsMax, signal);
}

/** The accounts of a filter now. */
export interface AccountsNow extends FirstRows<Account> {
  /** Time of the newest block of the first response, in nanoseconds; 0: there is no block. */
  readonly newestNs: bigint;
  /** Whether the party has any account, be it of the filter or not. */
  readonly isPartyKnown: boolean;
}

/** The accounts of a filter now. @throws {ServiceError} */
export async function readNow(filter: URLSearchParams, signal: AbortSignal): Promise<AccountsNow> {
  let newestNs: bigint | undefined;
  const list = async (query: Query) => {
    const page = await listAccounts(query, signal);
    newestNs ??= page.newestNs;
    return page;
  };
  const rows = await readPages(list, [...filter], accountsMax, signal);
  const party = [...filter].filter(([name]) => name === "filter.partyIds");
  const isPartyKnown =
    rows.edges.length > 0 || (await listAccounts([...party, ["pagination.first", "1"]], signal)).edges.length > 0;
  return { ...rows, newestNs: newestNs ?? 0n, isPartyKnown };
}

/** The accounts of a filter at the bounds that a range has, its start first. @throws {ServiceError} */
export function readBounds(
  filter: URLSearchParams,
  { startNs, endNs }: AccountRange,
  signal: AbortSignal,
): Promise<FirstRows<Account>[]> {
  const times = [startNs, endNs].filter((timeNs) => timeNs !== undefined);
  return Promise.all(times.map((timeNs) => readAccounts(filter, before(timeNs), signal)));
}

/** The newest changes of a range. */
export interface AccountHistory extends BalanceHistory {
  /** The first of them, as a page. */
  readonly page: Connection<BalanceChange>;
  /** By how much each change moved its account, by the change's cursor. */
  readonly moveOf: ReadonlyMap<string, bigint>;
  /** Since when the history is known, in nanoseconds; undefined: it has no beginning. */
  readonly since: string | undefined;
  /** Whether there are older changes in the range. */
  readonly isCut: boolean;
}

const noHistory: BalanceHistory = { first: 0n, steps: [], moves: [] };

function firstPage({ edges, isWhole }: FirstRows<BalanceChange>): Connection<BalanceChange> {
  const shown = edges.slice(0, pageSize);
  const [startCursor, endCursor] = [shown[0]?.cursor ?? "", shown.at(-1)?.cursor ?? ""];
  const hasNextPage = !isWhole || edges.length > pageSize;
  return { edges: shown, pageInfo: { hasNextPage, hasPreviousPage: false, startCursor, endCursor } };
}

/** Adds up the newest changes of a range. It has no steps where the balances before are not kept. @throws {ServiceError} */
export async function readHistory(
  filter: URLSearchParams,
  times: URLSearchParams,
  range: AccountRange,
  signal: AbortSignal,
): Promise<AccountHistory> {
  const { startNs } = range;
  const rows = await readPages(listBalanceChanges, [...filter, ...times], changesMax(range), signal);
  const { edges, isWhole } = rows;
  // The oldest block of a list that is cut may lack changes: it is what the others start from.
  const cutAt = isWhole ? undefined : edges.at(-1)?.node.timestamp;
  const drawn = edges.filter(({ node }) => node.timestamp !== cutAt).reverse();
  const asOf = cutAt ?? (startNs === undefined ? undefined : before(startNs));
  const start = asOf === undefined ? [] : await readKept(filter, asOf, signal);
  const changes = drawn.map(({ node }) => node);
  const history = start === undefined ? noHistory : balanceHistory(start, changes);
  const moves = drawn.flatMap(({ cursor }, index): [string, bigint][] => {
    const moved = history.moves[index];
    return moved === undefined ? [] : [[cursor, moved]];
  });
  const since = cutAt ?? startNs?.toString();
  return { ...history, page: firstPage(rows), moveOf: new Map(moves), since, isCut: !isWhole };
}

/** Accounts as of a time; undefined: the entries that state their balances were dropped. @throws {ServiceError} */
async function readKept(filter: URLSearchParams, asOf: string, signal: AbortSignal) {
  try {
    return (await readAccounts(filter, asOf, signal)).edges.map(({ node }) => node);
  } catch (thrown) {
    if (thrown instanceof ServiceError && thrown.reason === "LEDGER_NOT_RETAINED") return undefined;
    throw thrown;
  }
}

/** What the newest entries of a query moved, by their types. */
export interface MovedSums {
  /** The types that moved most first. */
  readonly types: readonly Moved[];
  readonly entries: number;
  /** Whether there are no older entries. */
  readonly isWhole: boolean;
}

/** Adds up the entries of accounts of one asset. @throws {ServiceError} */
export async function readMoved(
  filter: URLSearchParams,
  query: URLSearchParams,
  onProgress: (entries: number) => void,
  signal: AbortSignal,
): Promise<MovedSums> {
  const sums = new Map<string, Moved>();
  let [entries, isWhole] = [0, false];
  for await (const { edges, pageInfo } of pagesOf(listLedgerEntries, [...query], entriesMax, signal)) {
    const nodes = edges.map(({ node }) => node);
    addMoved(sums, filter, nodes);
    entries += nodes.length;
    isWhole = !pageInfo.hasNextPage;
    if (!signal.aborted) onProgress(entries);
  }
  return { types: [...sums.values()].sort(mostMoved), entries, isWhole };
}
