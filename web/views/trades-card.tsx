import { useState } from "preact/hooks";
import { Card } from "../components/card.js";
import type { Places } from "../format/decimal.js";
import { stalePoll, staleStream } from "../hooks/staleness.js";
import { useLiveList } from "../hooks/use-live-list.js";
import { usePoll } from "../hooks/use-poll.js";
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
  /** Time of the newest block, in nanoseconds; undefined: not known. */
  readonly newest: string | undefined;
  /** Says since when the network stands still; undefined: it does not. */
  readonly standstill: string | undefined;
}

type Parameters = readonly (readonly [string, string])[];

/** A market's trades: the newest as they are made, or those up to a moment, and the pages before. */
export function TradesCard(props: TradesCardProps) {
  /** `pagination` of an older page; undefined: the newest trades. */
  const [page, setPage] = useState<Parameters | undefined>(undefined);
  const { marketId, at } = props;
  const until: Parameters = at === undefined ? [] : [["dateRange.endTimestamp", String(BigInt(at) + 1n)]];
  const list = (pagination: Parameters) => listTrades([["marketIds", marketId], ...until, ...pagination]);
  const part = `${marketId} ${at}`;
  return page === undefined ? (
    <NewestTrades {...props} part={part} list={list} onPage={setPage} />
  ) : (
    <OlderTrades {...props} part={part} list={list} page={page} onPage={setPage} />
  );
}

interface TradesProps extends TradesCardProps {
  readonly part: string;
  readonly list: (pagination: Parameters) => Promise<Connection<Trade>>;
  readonly onPage: (page: Parameters | undefined) => void;
}

const newestPage: Parameters = [["pagination.first", size]];
const pageAfter = (cursor: string): Parameters => [...newestPage, ["pagination.after", cursor]];

function NewestTrades({ marketId, places, at, newest, standstill, part, list, onPage }: TradesProps) {
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
  const stale = at === undefined ? (staleStream(lost) ?? stalePoll(polled) ?? standstill) : undefined;
  // Rows of a stream have no cursors: the page that is shown is read again.
  const showOlder = () => list(newestPage).then(({ pageInfo }) => onPage(pageAfter(pageInfo.endCursor)));
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

function OlderTrades({ places, newest, part, list, page, onPage }: TradesProps & { readonly page: Parameters }) {
  const { value, error } = usePoll(() => list(page), 0, `${part} ${page.join()}`);
  const { hasNextPage = false, hasPreviousPage = false, startCursor = "", endCursor = "" } = value?.pageInfo ?? {};
  const newer: Parameters = [
    ["pagination.last", size],
    ["pagination.before", startCursor],
  ];
  return (
    <Card title="Older trades">
      {value === undefined ? (
        <p class="quiet">{error?.message ?? "Loading…"}</p>
      ) : (
        <TradesTable places={places} trades={value.edges.map(({ node }) => node)} newest={newest} />
      )}
      <div class="actions">
        <button type="button" onClick={() => onPage(undefined)}>
          Newest
        </button>
        <button type="button" disabled={!hasPreviousPage} onClick={() => onPage(newer)}>
          Newer
        </button>
        <button type="button" disabled={!hasNextPage} onClick={() => onPage(pageAfter(endCursor))}>
          Older
        </button>
      </div>
    </Card>
  );
}
