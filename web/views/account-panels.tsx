import { useRef, useState } from "preact/hooks";
import { type AccountRange, endingAt, type ReadRange, readRange } from "../accounts/account-range.js";
import { addsUp } from "../accounts/balances.js";
import {
  type AccountsNow,
  accountsMax,
  readBounds,
  readHistory,
  readMoved,
  readNow,
} from "../accounts/read-account.js";
import type { AppProps } from "../app.js";
import { Card } from "../components/card.js";
import { pageSize, withPage } from "../components/pager.js";
import { grouped } from "../format/decimal.js";
import { cut, nameLengthMax } from "../format/names.js";
import { shortTime } from "../format/time-text.js";
import { useObservable } from "../hooks/observable.js";
import { staleNetwork, stalePoll } from "../hooks/staleness.js";
import { type Polled, usePoll } from "../hooks/use-poll.js";
import { queryHref } from "../route.js";
import { assets } from "../service/assets.js";
import { marketName } from "../service/market-directory.js";
import type { Account } from "../service/messages.js";
import { type FirstRows, listBalanceChanges, listLedgerEntries } from "../service/service.js";
import { entriesQuery } from "./account-calls.js";
import { BalanceChanges, HistoryChart } from "./balance-changes.js";
import { BalancesTable } from "./balances-table.js";
import { LedgerTable } from "./ledger-table.js";
import { MovedTable } from "./moved-table.js";

const pollMs = 5_000;
/** A history has many more rows. */
const historyPollMs = 15_000;
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

/** What accounts held, when that changed, and the entries that moved it. */
export function AccountPanels(props: AccountPanelsProps) {
  const { filter, range, rangeText } = props;
  const now = usePoll((signal) => readNow(filter, signal), pollMs, "");
  // The first response says where the reading ends.
  const first = useRef<ReadRange | undefined>(undefined);
  if (now.value !== undefined) first.current ??= readRange(range, now.value.newestNs);
  const read = first.current;
  const isFound = (now.value?.edges.length ?? 0) > 0;
  return (
    <>
      {now.value === undefined && now.error !== undefined && <Problem error={now.error} />}
      {now.value !== undefined && !isFound && <Unknown filter={filter} now={now.value} />}
      {now.value !== undefined && isFound && read !== undefined && (
        <RangePanels {...props} now={now} value={now.value} range={read} times={endingAt(props.times, read.endNs)} />
      )}
      {now.value === undefined && (
        <Card title={titleOf(rangeText)}>
          <p class="quiet">{now.error === undefined ? "Loading…" : "Not read."}</p>
        </Card>
      )}
    </>
  );
}

const titleOf = (rangeText: string) => (rangeText === "" ? "What it holds" : `What it held: ${rangeText}`);

function Problem({ error }: { readonly error: Error }) {
  return (
    <p id="problem" class="notice" role="alert">
      {error.message}
    </p>
  );
}

/** Says why there is no account of a filter. */
function Unknown({ filter, now }: { readonly filter: URLSearchParams; readonly now: AccountsNow }) {
  const assetId = filter.get("filter.assetId") ?? "";
  const isAssetUnknown = useObservable(assets, (all) => assetId !== "" && all !== undefined && !all.has(assetId));
  return (
    <p id="unknown" class="notice">
      {isAssetUnknown && `No asset is called ${cut(assetId, nameLengthMax)}. `}
      {!now.isPartyKnown && "No account of this party has ever been in a ledger entry. "}
      {now.isPartyKnown && !isAssetUnknown && "No such account of this party has ever been in a ledger entry. "}
      {(isAssetUnknown || !now.isPartyKnown) && "Ids compare by bytes: upper and lower case differ."}
    </p>
  );
}

interface RangePanelsProps extends AccountPanelsProps {
  readonly now: Polled<AccountsNow>;
  readonly value: AccountsNow;
  readonly range: ReadRange;
}

/** Everything that the panels show. What no later block can change is read once. */
function useAccount({ query, filter, times, range, value: now }: RangePanelsProps) {
  const isLive = range.startNs === undefined && range.endNs === undefined;
  const isPaged = ["first", "last"].some((name) => query.has(`pagination.${name}`));
  const entries = entriesQuery(filter, times);
  const firstEntries = withPage(entries, { first: String(pageSize) });
  // Of all time there may be millions.
  const isAddedUp = (filter.get("filter.assetId") ?? "") !== "" && range.startNs !== undefined;
  const [added, setAdded] = useState(0);
  const bounds = usePoll((signal) => readBounds(filter, range, signal), 0, "");
  const history = usePoll((signal) => readHistory(filter, times, range, signal), isLive ? historyPollMs : 0, "");
  const page = usePoll(
    async (signal) => (isPaged ? listBalanceChanges(endingAt(query, range.endNs), signal) : undefined),
    0,
    isPaged ? query.toString() : "",
  );
  const moved = usePoll((signal) => listLedgerEntries(firstEntries, signal), isLive ? pollMs : 0, "");
  const sums = usePoll(async (signal) => (isAddedUp ? readMoved(filter, entries, setAdded, signal) : undefined), 0, "");
  const lists = bounds.value && [...bounds.value, now];
  const isWhole = lists?.every((list) => list.isWhole) ?? true;
  const changes = isPaged ? page : { ...history, value: history.value?.page };
  return { entries, bounds, history, changes, moved, sums, added, isAddedUp, lists, isWhole };
}

const total = ({ edges }: FirstRows<Account>) =>
  edges.reduce((sum, { node }) => sum + (addsUp(node.type) ? BigInt(node.balance) : 0n), 0n);

function RangePanels(props: RangePanelsProps) {
  const { query, filter, range, rangeText, directory, status, now, value } = props;
  const account = useAccount(props);
  const { bounds, history, changes, moved, lists, isWhole } = account;
  const markets = useObservable(directory.markets, (all) => all);
  const nameOf = (id: string) => cut(marketName(id, markets.get(id)), nameLengthMax);
  const standstill = useObservable(status.status, staleNetwork);
  const assetId = filter.get("filter.assetId") || undefined;
  const problem = [bounds, history, changes, moved].find((each) => each.error && each.value === undefined);
  const loading = <p class="quiet">{problem === undefined ? "Loading…" : "Not read."}</p>;
  const hasChart = assetId !== undefined && history.value !== undefined && isWhole;
  return (
    <>
      {problem?.error !== undefined && <Problem error={problem.error} />}
      <Card title={titleOf(rangeText)} stale={stalePoll(now) ?? standstill}>
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
        {range.newestNs !== undefined && (
          <p id="read-until" class="quiet">
            Read until the newest block, of {shortTime(range.newestNs)} (UTC). “Show” reads what came later.
          </p>
        )}
        {!isWhole && <p class="quiet">Only the first {grouped(String(accountsMax))} accounts are read.</p>}
      </Card>
      <Card title="When that changed" stale={stalePoll(changes)}>
        {hasChart && <HistoryChart assetId={assetId} range={range} history={history.value} newestNs={value.newestNs} />}
        {changes.value === undefined ? (
          loading
        ) : (
          <BalanceChanges query={query} page={changes.value} history={history.value} nameOf={nameOf} />
        )}
      </Card>
      <MovedCard {...account} {...{ loading, range, nameOf }} assetId={assetId} />
    </>
  );
}

interface MovedCardProps extends Omit<ReturnType<typeof useAccount>, "history" | "changes"> {
  readonly loading: preact.JSX.Element;
  readonly range: ReadRange;
  readonly assetId: string | undefined;
  readonly nameOf: (marketId: string) => string;
}

/** The newest entries, and what all of them moved. */
function MovedCard(props: MovedCardProps) {
  const { entries, bounds, moved, isWhole, loading, nameOf } = props;
  const [first, last] = bounds.value ?? [];
  const gain = isWhole && first && last ? total(last) - total(first) : undefined;
  if (moved.value?.edges.length === 0) {
    return (
      <Card title="What moved it">
        <p id="no-entries" class="quiet">
          No entry of this time moved it.
        </p>
      </Card>
    );
  }
  return (
    <Card title="What moved it" stale={stalePoll(moved)}>
      <Sums {...props} gain={gain} />
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
  );
}

/** What entries moved, added up, or why that is not shown. */
function Sums({
  sums,
  added,
  isAddedUp,
  range,
  assetId,
  gain,
}: MovedCardProps & { readonly gain: bigint | undefined }) {
  if (!isAddedUp) {
    const missing = [assetId === undefined && "an asset", range.startNs === undefined && "From, or a day,"];
    return (
      <p id="no-sums" class="quiet">
        Give {missing.filter(Boolean).join(" and ")} to have the entries added up by transfer.
      </p>
    );
  }
  if (sums.value !== undefined) return <MovedTable assetId={assetId ?? ""} sums={sums.value} gain={gain} />;
  return (
    <p id="adding-up" class="quiet">
      {sums.error === undefined
        ? `Adding up the entries: ${grouped(String(added))} so far…`
        : `The entries are not added up: ${sums.error.message}.`}
    </p>
  );
}
