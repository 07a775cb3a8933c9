import { useRef } from "preact/hooks";
import { Card } from "../components/card.js";
import type { Places } from "../format/decimal.js";
import { stalePoll, staleStream } from "../hooks/staleness.js";
import { useLiveList } from "../hooks/use-live-list.js";
import { usePoll } from "../hooks/use-poll.js";
import { showMarket, type TradesPage } from "../route.js";
import type { Connection, Trade } from "../service/messages.js";
import { apiUrl, listTrades, paths } from "../service/service.js";
import { TradesTable } from "./trades-table.js";

const pageSize = 15;
const size = String(pageSize);

interface TradesCardProps {
  readonly marketId: string;
  readonly places: Places;
  /** The moment that is shown, in Unix nanoseconds; undefined: now. */
  readonly at: string | undefined;
  /** The page that is shown; undefined: the newest trades. */
  readonly page: TradesPage | undefined;
  /** Time of the newest block, in nanoseconds; undefined: not known. */
  readonly newest: string | undefined;
  /** Says since when the network stands still; undefined: it does not. */
  readonly standstill: string | undefined;
}

type Parameters = readonly (readonly [string, string])[];

/** A market's trades: the newest as they are made, or those up to a moment, and the pages before. */
export function TradesCard(props: TradesCardProps) {
  const { marketId, at, page } = props;
  const until: Parameters = at === undefined ? [] : [["dateRange.endTimestamp", String(BigInt(at) + 1n)]];
  const list = (pagination: Parameters) => listTrades([["marketIds", marketId], ...until, ...pagination]);
  const part = `${marketId} ${at}`;
  const last = useRef<LastTrades>({ part, trades: [] });
  if (last.current.part !== part) last.current = { part, trades: [] };
  return page === undefined ? (
    <NewestTrades {...props} {...{ part, list, last }} />
  ) : (
    <OlderTrades {...props} {...{ part, list, last, page }} />
  );
}

/** Trades that were shown last. They stay until those of another page are there. */
interface LastTrades {
  readonly part: string;
  readonly trades: readonly Trade[];
}

interface TradesProps extends TradesCardProps {
  readonly part: string;
  readonly last: { current: LastTrades };
  readonly list: (pagination: Parameters) => Promise<Connection<Trade>>;
}

const newestPage: Parameters = [["pagination.first", size]];

function NewestTrades({ marketId, places, at, newest, standstill, part, list, last }: TradesProps) {
  const { rows, polled, lost } = useLiveList<Trade, { readonly trades: readonly Trade[] }>({
    streamUrl: at === undefined ? apiUrl(paths.tradesStream, [["marketIds", marketId]]).href : undefined,
    key: part,
    list: async () => (await list(newestPage)).edges.map(({ node }) => node),
    rowsOf: ({ trades }) => trades.toReversed(),
    merge: (newer, older) => {
      const ids = new Set(newer.map(({ id }) => id));
      return [...newer, ...older.filter(({ id }) => !ids.has(id))].slice(0, pageSize);
    },
  });
  if (rows !== undefined) last.current = { part, trades: rows };
  const stale = at === undefined ? (staleStream(lost) ?? stalePoll(polled) ?? standstill) : undefined;
  // Rows of a stream have no cursors: the page that is shown is read again.
  const showOlder = () =>
    list(newestPage).then(({ pageInfo }) => showMarket(marketId, { trades: ["pagination.after", pageInfo.endCursor] }));
  return (
    <Card title={at === undefined ? "Newest trades, live" : "Trades until this moment"} stale={stale}>
      {rows === undefined && <p class="quiet">{polled.error?.message ?? "Loading…"}</p>}
      {rows?.length === 0 && (
        <p id="no-trades" class="quiet">
          {at === undefined
            ? "No trade of this market is kept. Its next one appears here by itself."
            : "No trade of this market before this moment is kept."}
        </p>
      )}
      {rows !== undefined && rows.length > 0 && <TradesTable places={places} trades={rows} newest={newest} />}
      {rows?.length === pageSize && (
        <div class="actions">
          <button type="button" onClick={() => void showOlder().catch(() => {})}>
            Older
          </button>
        </div>
      )}
    </Card>
  );
}

function OlderTrades({
  marketId,
  places,
  newest,
  part,
  list,
  last,
  page,
}: TradesProps & { readonly page: TradesPage }) {
  const pageSizeName = page[0] === "pagination.after" ? "pagination.first" : "pagination.last";
  const { value, error } = usePoll(() => list([[pageSizeName, size], page]), 0, `${part} ${page.join()}`);
  if (value !== undefined) last.current = { part, trades: value.edges.map(({ node }) => node) };
  const { trades } = last.current;
  const isRead = value !== undefined || (error === undefined && trades.length > 0);
  const { hasNextPage = false, hasPreviousPage = false, startCursor = "", endCursor = "" } = value?.pageInfo ?? {};
  const show = (trades: TradesPage | undefined) => showMarket(marketId, { trades });
  return (
    <Card title="Older trades">
      {isRead ? <TradesTable {...{ places, trades, newest }} /> : <p class="quiet">{error?.message ?? "Loading…"}</p>}
      <div class="actions">
        <button type="button" onClick={() => show(undefined)}>
          Newest
        </button>
        <button type="button" disabled={!hasPreviousPage} onClick={() => show(["pagination.before", startCursor])}>
          Newer
        </button>
        <button type="button" disabled={!hasNextPage} onClick={() => show(["pagination.after", endCursor])}>
          Older
        </button>
      </div>
    </Card>
  );
}
