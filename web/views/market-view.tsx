import { useEffect } from "preact/hooks";
import type { AppProps } from "../app.js";
import type { BookView } from "../books/book-store.js";
import { midPrice } from "../books/quote.js";
import { Calls } from "../calls/calls.js";
import { Amount, Digits } from "../components/amount.js";
import { Card } from "../components/card.js";
import { DepthChart } from "../components/depth-chart.js";
import { Ladder } from "../components/ladder.js";
import { MidChart } from "../components/mid-chart.js";
import { enumName } from "../format/names.js";
import { useObservable } from "../hooks/observable.js";
import { staleBooks, stalePoll } from "../hooks/staleness.js";
import { useNow } from "../hooks/use-now.js";
import { type Polled, usePoll } from "../hooks/use-poll.js";
import { marketHref, navigate } from "../route.js";
import { marketName, placesOf } from "../service/market-directory.js";
import type { Market, MarketData } from "../service/messages.js";
import { getMarket, getMarketData, ServiceError } from "../service/service.js";
import { Instrument } from "./instrument.js";
import { marketCalls } from "./market-calls.js";
import { MarketDataFacts, PriceBoundsTable } from "./market-data-facts.js";
import { TradesSeen } from "./trades-seen.js";

const marketPollMs = 10_000;
const marketDataPollMs = 1_000;

interface Places {
  readonly price: number;
  readonly size: number;
}

/** The best prices, in large type. */
function BestPrices({ view, places }: { readonly view: BookView; readonly places: Places }) {
  const { quote } = view;
  return (
    <dl class="best">
      <div>
        <dt>Best bid</dt>
        <dd class="buy" id="best-bid">
          <Amount value={quote.bid?.price} places={places.price} />
        </dd>
      </div>
      <div>
        <dt>Mid</dt>
        <dd id="best-mid">
          <Digits exact={midPrice(quote, places.price)} />
        </dd>
      </div>
      <div>
        <dt>Best ask</dt>
        <dd class="sell" id="best-ask">
          <Amount value={quote.ask?.price} places={places.price} />
        </dd>
      </div>
      <div>
        <dt>Spread</dt>
        <dd id="best-spread">
          <Amount value={quote.spread} places={places.price} />
        </dd>
      </div>
    </dl>
  );
}

/** A list of all markets to change to. */
function MarketChoice({ marketId, books, directory }: Pick<AppProps, "books" | "directory"> & { marketId: string }) {
  const markets = useObservable(directory.markets, (value) => value);
  // Names of markets and not their prices: it renders again only when their number changes.
  useObservable(books.views, (views) => views.size);
  const options = [...books.views.value.keys()]
    .map((id) => ({ id, name: marketName(id, markets.get(id)) }))
    .sort((a, b) => a.name.localeCompare(b.name));
  return (
    <label class="choice">
      Market
      <select id="market-choice" value={marketId} onChange={(event) => navigate(marketHref(event.currentTarget.value))}>
        {options.every(({ id }) => id !== marketId) && <option value={marketId}>{marketId}</option>}
        {options.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The panels that show the book. All of them show the same one. */
function BookPanels({ view, market, stale }: { view: BookView; market: Market; stale: string | undefined }) {
  const places = placesOf(market);
  return (
    <>
      <Card title="Order book" class="book" stale={stale}>
        <BestPrices view={view} places={places} />
        <Ladder view={view} places={places} />
        <p class="quiet">
          {view.buy.length} bid and {view.sell.length} ask levels, update{" "}
          <span id="sequence-number">{String(view.sequenceNumber)}</span>
        </p>
      </Card>
      <div class="charts">
        <Card title="Mid price" stale={stale}>
          <MidChart view={view} places={places.price} />
        </Card>
        <Card title="Depth" stale={stale}>
          <DepthChart view={view} places={places} />
        </Card>
        <TradesSeen market={market} />
      </div>
    </>
  );
}

function MarketDataPanels({ market, polled }: { readonly market: Market; readonly polled: Polled<MarketData> }) {
  const { value: data, error } = polled;
  const hasNone = error instanceof ServiceError && error.reason === "NO_MARKET_DATA_YET";
  const stale = stalePoll(polled);
  return (
    <>
      <Card title="Market data" stale={stale}>
        {data === undefined ? (
          <p class="quiet">{hasNone ? "The network has stated none yet." : "Loading…"}</p>
        ) : (
          <MarketDataFacts market={market} data={data} />
        )}
      </Card>
      {data !== undefined && data.priceMonitoringBounds.length > 0 && (
        <Card title="Price bounds" stale={stale}>
          <PriceBoundsTable bounds={data.priceMonitoringBounds} places={placesOf(market).price} />
        </Card>
      )}
    </>
  );
}

function MarketPage({ market, ...app }: AppProps & { readonly market: Market }) {
  const { books, status } = app;
  const { id } = market;
  const view = useObservable(books.views, (views) => views.get(id));
  const stream = useObservable(books.stream, (value) => value);
  const network = useObservable(status.status, (value) => value);
  const stale = staleBooks(stream, network, useNow());
  const marketData = usePoll(() => getMarketData(id), marketDataPollMs, id);
  const data = marketData.value;
  const state = enumName(data?.marketState ?? market.state, "STATE_");
  const mode = enumName(data?.marketTradingMode ?? market.tradingMode, "TRADING_MODE_");
  return (
    <>
      <div class="heading">
        <h1>{marketName(id, market)}</h1>
        <p class="quiet">
          {market.tradableInstrument?.instrument?.name} · {state} · {mode}
        </p>
        <MarketChoice marketId={id} {...app} />
      </div>
      <div class="columns">
        {view === undefined ? (
          <Card title="Order book" class="book">
            <p class="quiet">Waiting for the first book.</p>
          </Card>
        ) : (
          <BookPanels view={view} market={market} stale={stale} />
        )}
        <div class="facts-column">
          <MarketDataPanels market={market} polled={marketData} />
          <Instrument market={market} />
        </div>
      </div>
    </>
  );
}

/** One market: its book, charts, trades and data. */
export function MarketView({ marketId, ...app }: AppProps & { readonly marketId: string }) {
  const { value: market, error } = usePoll(() => getMarket(marketId), marketPollMs, marketId);
  useEffect(() => {
    if (market !== undefined) app.directory.refresh(market);
  }, [market, app.directory]);
  return (
    <>
      {market === undefined && (
        <div class="heading">
          <h1>Market</h1>
          <MarketChoice marketId={marketId} {...app} />
        </div>
      )}
      {market === undefined && error !== undefined && (
        <p id="problem" class="notice" role="alert">
          {error.message}
        </p>
      )}
      {market !== undefined && <MarketPage market={market} {...app} />}
      <Calls calls={marketCalls(marketId)} />
    </>
  );
}
