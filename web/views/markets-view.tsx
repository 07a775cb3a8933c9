import type { AppProps } from "../app.js";
import type { Call } from "../calls/call.js";
import { Calls } from "../calls/calls.js";
import { useObservable } from "../hooks/observable.js";
import { staleBooks } from "../hooks/staleness.js";
import { useMarketNames } from "../hooks/use-market-names.js";
import { useNow } from "../hooks/use-now.js";
import { usePoll } from "../hooks/use-poll.js";
import { listMarketsData, paths } from "../service/service.js";
import { MarketRow } from "./market-row.js";

const marketsDataPollMs = 3_000;

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

/** All markets at a glance. */
export function MarketsView({ books, directory, status }: AppProps) {
  const views = useObservable(books.views, (value) => value);
  const markets = useObservable(directory.markets, (value) => value);
  const stream = useObservable(books.stream, (value) => value);
  const network = useObservable(status.status, (value) => value);
  const { value: marketsData = [] } = usePoll(listMarketsData, marketsDataPollMs, "");
  const data = new Map(marketsData.map((each) => [each.market, each]));
  const stale = staleBooks(stream, network, useNow());
  const named = useMarketNames(books, directory);
  return (
    <>
      <h1>Markets</h1>
      {stale !== undefined && <p class="notice">{stale}</p>}
      {named.length === 0 ? (
        <p id="no-markets" class="notice">
          {stream.state === "live" ? "There is no market yet. The first one appears here by itself." : "Loading…"}
        </p>
      ) : (
        <div class="card" data-stale={stale === undefined ? undefined : ""}>
          <table id="markets" class="markets">
            <caption class="visually-hidden">
              Markets with the mid price, its change since this page was opened, spread and volume at the best prices
            </caption>
            <thead>
              <tr>
                <th scope="col">Market</th>
                <th scope="col">Mid price</th>
                <th scope="col">Since opened</th>
                <th scope="col">Spread</th>
                <th scope="col">Bid volume</th>
                <th scope="col">Ask volume</th>
                <th scope="col">Mode</th>
                <th scope="col">Trend</th>
              </tr>
            </thead>
            <tbody>
              {named.map(({ id }) => {
                const view = views.get(id);
                return view && <MarketRow key={id} view={view} market={markets.get(id)} data={data.get(id)} />;
              })}
            </tbody>
          </table>
        </div>
      )}
      <Calls calls={calls} />
    </>
  );
}
