import { useMemo } from "preact/hooks";
import type { AppProps } from "../app.js";
import type { Call } from "../calls/call.js";
import { Calls } from "../calls/calls.js";
import { useObservable } from "../hooks/observable.js";
import { lostBooks, staleNetwork } from "../hooks/staleness.js";
import { useMarketNames } from "../hooks/use-market-names.js";
import { usePoll } from "../hooks/use-poll.js";
import { marketsHref, showRoute } from "../route.js";
import type { MarketData } from "../service/messages.js";
import { listMarketsData, paths } from "../service/service.js";
import { MarketsTable } from "./markets-table.js";

const marketsDataPollMs = 3_000;
const noData: readonly MarketData[] = [];

const calls: readonly Call[] = [
  {
    title: "Market data of all markets",
    path: paths.marketsData,
    method: "ListLatestMarketData",
    request: {},
    response: "message",
  },
  {
    title: "The order books of all markets, live",
    path: paths.depthUpdates,
    method: "ObserveMarketsDepthUpdates",
    request: {},
    response: "messages",
  },
];

/** All markets at a glance. `find` leaves those whose name or identifier contains it. */
export function MarketsView({ find, ...app }: AppProps & { readonly find: string }) {
  const { books, directory, status } = app;
  const stream = useObservable(books.stream, (value) => value);
  const network = useObservable(status.status, (value) => value);
  const { markets = 0, marketsWithData = 0, staleMarkets = 0, staleMarketIds = [] } = network.response ?? {};
  const dataOf = async () => (marketsWithData === 0 ? noData : listMarketsData());
  const { value: marketsData = noData } = usePoll(dataOf, marketsDataPollMs, marketsWithData === 0 ? "none" : "some");
  const data = useMemo(() => new Map(marketsData.map((each) => [each.market, each])), [marketsData]);
  const stale = lostBooks(stream) ?? staleNetwork(network);
  const unnamed = staleMarkets - staleMarketIds.length;
  const named = useMarketNames(books, directory);
  const found = useMemo(() => {
    const text = find.toLowerCase();
    return named.filter(({ id, name, title }) => [id, name, title].some((each) => each.toLowerCase().includes(text)));
  }, [named, find]);
  return (
    <>
      <div class="heading">
        <h1>Markets</h1>
        <label>
          Find
          <input
            id="find"
            type="search"
            value={find}
            placeholder="name or identifier"
            maxLength={128}
            spellcheck={false}
            onInput={(event) => showRoute(marketsHref(event.currentTarget.value))}
          />
        </label>
      </div>
      {stale !== undefined && <p class="notice">{stale}</p>}
      {named.length === 0 ? (
        <p id="no-markets" class="notice">
          {stream.state === "live" && markets === 0
            ? "There is no market yet. The first one appears here by itself."
            : "Loading…"}
        </p>
      ) : (
        <div class="card" data-stale={stale === undefined ? undefined : ""}>
          <MarketsTable {...app} named={found} data={data} />
          {unnamed > 0 && <p class="quiet">{unnamed} more stale markets are not listed.</p>}
          <output class="quiet">{found.length === 0 && `None of ${named.length} markets.`}</output>
        </div>
      )}
      <Calls calls={calls} />
    </>
  );
}
