import { type AccountRange, shortTime } from "../accounts/account-range.js";
import { accountsMax, readAccounts, readBounds, readHistory, readMoved } from "../accounts/read-account.js";
import type { AppProps } from "../app.js";
import { Card } from "../components/card.js";
import { pageSize, withPage } from "../components/pager.js";
import { grouped } from "../format/decimal.js";
import { cut, nameLengthMax } from "../format/names.js";
import { useObservable } from "../hooks/observable.js";
import { stalePoll } from "../hooks/staleness.js";
import { usePoll } from "../hooks/use-poll.js";
import { queryHref } from "../route.js";
import { marketName } from "../service/market-directory.js";
import { listBalanceChanges, listLedgerEntries } from "../service/service.js";
import { entriesQuery } from "./account-calls.js";
import { BalanceChanges, HistoryChart } from "./balance-changes.js";
import { BalancesTable } from "./balances-table.js";
import { LedgerTable } from "./ledger-table.js";
import { MovedTable } from "./moved-table.js";

const pollMs = 5_000;
/** A history has many more rows. */
const historyPollMs = 15_000;
/** The entries of a range are as many as a response holds. */
const movedPollMs = 60_000;
const noCursors: ReadonlySet<string> = new Set();

interface AccountPanelsProps extends AppProps {
  /** As the API takes it, with its pages. */
  readonly query: URLSearchParams;
  /** Its parts: the accounts, and the times. */
  readonly filter: URLSearchParams;
  readonly times: URLSearchParams;
  readonly range: AccountRange;
  readonly rangeText: string;
}

/** Everything that the panels show. What no later block can change is read once. */
function useAccount({ query, filter, times, range, status }: AccountPanelsProps) {
  const newest = useObservable(status.status, ({ response }) => response?.blockTimestamp);
  const isOver = newest !== undefined && range.endNs !== undefined && range.endNs <= BigInt(newest);
  const rangeMs = isOver ? 0 : pollMs;
  const isPaged = ["first", "last"].some((name) => query.has(`pagination.${name}`));
  const asked = isPaged ? query : withPage(query, { first: String(pageSize) });
  const entries = entriesQuery(filter, times);
  const firstEntries = withPage(entries, { first: String(pageSize) });
  // Of all time there may be millions.
  const isAddedUp = (filter.get("filter.assetId") ?? "") !== "" && range.startNs !== undefined;
  return {
    newest,
    entries,
    now: usePoll(() => readAccounts(filter), pollMs, ""),
    bounds: usePoll(() => readBounds(filter, range), rangeMs, ""),
    history: usePoll(() => readHistory(filter, times, range), isOver ? 0 : historyPollMs, ""),
    changes: usePoll(() => listBalanceChanges(asked), isPaged ? 0 : rangeMs, asked.toString()),
    moved: usePoll(() => listLedgerEntries(firstEntries), rangeMs, ""),
    sums: usePoll(
      async () => (isAddedUp ? await readMoved(filter, entries) : undefined),
      isOver || !isAddedUp ? 0 : movedPollMs,
      "",
    ),
  };
}

/** What accounts held, when that changed, and the entries that moved it. */
export function AccountPanels(props: AccountPanelsProps) {
  const { query, filter, range, rangeText, directory } = props;
  const { newest, entries, now, bounds, history, changes, moved, sums } = useAccount(props);
  const markets = useObservable(directory.markets, (value) => value);
  const nameOf = (id: string) => cut(marketName(id, markets.get(id)), nameLengthMax);
  const assetId = filter.get("filter.assetId") || undefined;
  const problem = [now, bounds, history, changes, moved].find(({ error, value }) => error && value === undefined);
  const lists = bounds.value !== undefined && now.value !== undefined ? [...bounds.value, now.value] : undefined;
  const isWhole = lists?.every((list) => list.isWhole) ?? true;
  const loading = <p class="quiet">{problem === undefined ? "Loading…" : "Not read."}</p>;
  const hasChart = assetId !== undefined && history.value !== undefined && isWhole;
  return (
    <>
      {problem?.error !== undefined && (
        <p id="problem" class="notice" role="alert">
          {problem.error.message}
        </p>
      )}
      <Card title={rangeText === "" ? "What it holds" : `What it held: ${rangeText}`} stale={stalePoll(now)}>
        {lists === undefined ? (
          loading
        ) : (
          <BalancesTable
            range={range}
            times={lists.map(({ edges }) => edges.map(({ node }) => node))}
            assetId={isWhole ? assetId : undefined}
            nameOf={nameOf}
          />
        )}
        {newest !== undefined && range.endNs !== undefined && range.endNs > BigInt(newest) && (
          <p id="beyond-newest" class="quiet">
            The newest block is of {shortTime(BigInt(newest))} (UTC): what came later is not known.
          </p>
        )}
        {!isWhole && <p class="quiet">Only the first {grouped(String(accountsMax))} accounts are read.</p>}
      </Card>
      <Card title="When that changed" stale={stalePoll(changes)}>
        {hasChart && <HistoryChart assetId={assetId} range={range} history={history.value} newest={newest} />}
        {changes.value === undefined ? (
          loading
        ) : (
          <BalanceChanges query={query} page={changes.value} history={history.value} nameOf={nameOf} />
        )}
      </Card>
      <Card title="What moved it" stale={stalePoll(moved)}>
        {sums.value !== undefined && <MovedTable assetId={assetId ?? ""} sums={sums.value} />}
        {moved.value === undefined ? (
          loading
        ) : (
          <LedgerTable edges={moved.value.edges} arrived={noCursors} nameOf={nameOf} useOf={() => ""} />
        )}
        <p class="quiet">
          {moved.value?.pageInfo.hasNextPage === true && `The newest ${pageSize} entries. `}
          <a href={queryHref("ledger", entries)}>All of these entries in the ledger</a>
        </p>
      </Card>
    </>
  );
}
