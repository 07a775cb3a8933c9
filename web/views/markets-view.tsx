import { useMemo } from "preact/hooks";
import type { AppProps } from "../app.js";
import type { BookView } from "../books/book-store.js";
import { midPrice } from "../books/quote.js";
import type { Call } from "../calls/call.js";
import { Calls } from "../calls/calls.js";
import { Amount, Digits } from "../components/amount.js";
import { Sparkline } from "../components/sparkline.js";
import { missing, percentage } from "../format/decimal.js";
import { enumName } from "../format/names.js";
import { useObservable } from "../hooks/observable.js";
import { staleBooks } from "../hooks/staleness.js";
import { useNow } from "../hooks/use-now.js";
import { usePoll } from "../hooks/use-poll.js";
import { marketHref } from "../route.js";
import { marketName, placesOf } from "../service/market-directory.js";
import type { Market, MarketData } from "../service/messages.js";
import { listMarketsData, paths } from "../service/service.js";

const marketsDataPollMs = 3_000;

const calls: readonly Call[] = [
  {
    title: "Market data of all markets",
    path: paths.marketsData,
    method: "ListLatestMarketData",
    request: {},
    answer: "message",
  },
  {
    title: "The order books of all markets, live",
    path: paths.depthUpdates,
    method: "ObserveMarketsDepthUpdates",
    request: {},
    answer: "messages",
  },
];

interface RowProps {
  readonly view: BookView;
  readonly market: Market | undefined;
  readonly data: MarketData | undefined;
}

function Change({ view }: { readonly view: BookView }) {
  const { firstMidTwice } = view;
  const { midTwice } = view.quote;
  if (firstMidTwice === undefined || midTwice === undefined) return <span>{missing}</span>;
  const change = midTwice - firstMidTwice;
  const trend = change > 0n ? "up" : change < 0n ? "down" : "same";
  return (
    <span class="change" data-trend={trend}>
      {percentage(change, firstMidTwice)}
    </span>
  );
}

/** A market's row. It is made anew only when one of its parts is another. */
function MarketRow({ view, market, data }: RowProps) {
  return useMemo(() => {
    const { quote, marketId } = view;
    const places = placesOf(market);
    const mode = data?.marketTradingMode ?? market?.tradingMode;
    const state = data?.marketState ?? market?.state;
    return (
      <tr data-market={marketId}>
        <th scope="row">
          <a class="market-link" href={marketHref(marketId)} title={marketId}>
            {marketName(marketId, market)}
          </a>
          <span class="quiet name">{market?.tradableInstrument?.instrument?.name}</span>
        </th>
        <td class="number price" data-label="Mid price">
          <Digits exact={midPrice(quote, places.price)} />
        </td>
        <td class="number" data-label="Change">
          <Change view={view} />
        </td>
        <td class="number spread" data-label="Spread">
          <Amount value={quote.spread} places={places.price} />
        </td>
        <td class="number" data-label="Bid volume">
          <Amount value={quote.bid?.volume} places={places.size} />
        </td>
        <td class="number" data-label="Ask volume">
          <Amount value={quote.ask?.volume} places={places.size} />
        </td>
        <td class="mode" data-label="Mode">
          {state === "STATE_ACTIVE" || state === undefined ? "" : `${enumName(state, "STATE_")}, `}
          {enumName(mode, "TRADING_MODE_")}
        </td>
        <td class="trend">
          <Sparkline mids={view.mids} />
        </td>
      </tr>
    );
  }, [view, market, data]);
}

/** All markets at a glance. */
export function MarketsView({ books, directory, status }: AppProps) {
  const views = useObservable(books.views, (value) => value);
  const markets = useObservable(directory.markets, (value) => value);
  const stream = useObservable(books.stream, (value) => value);
  const network = useObservable(status.status, (value) => value);
  const { value: marketsData = [] } = usePoll(listMarketsData, marketsDataPollMs, "");
  const data = new Map(marketsData.map((each) => [each.market, each]));
  const stale = staleBooks(stream, network, useNow());
  const names = new Map([...views.keys()].map((id) => [id, marketName(id, markets.get(id))]));
  const sorted = [...views.values()].sort((a, b) =>
    (names.get(a.marketId) ?? "").localeCompare(names.get(b.marketId) ?? ""),
  );
  return (
    <>
      <h1>Markets</h1>
      {stale !== undefined && <p class="notice">{stale}</p>}
      {sorted.length === 0 ? (
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
                <th scope="col">Change</th>
                <th scope="col">Spread</th>
                <th scope="col">Bid volume</th>
                <th scope="col">Ask volume</th>
                <th scope="col">Mode</th>
                <th scope="col">Trend</th>
              </tr>
            </thead>
            <tbody>
              {sorted.map((view) => (
                <MarketRow
                  key={view.marketId}
                  view={view}
                  market={markets.get(view.marketId)}
                  data={data.get(view.marketId)}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Calls calls={calls} />
    </>
  );
}
