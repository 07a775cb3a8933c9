import type { AppProps } from "../app.js";
import { MarketChoice } from "../components/market-choice.js";
import { enumName } from "../format/names.js";
import { useObservable } from "../hooks/observable.js";
import { staleBooks, staleMarket, staleNetwork } from "../hooks/staleness.js";
import { useMarketData } from "../hooks/use-market-data.js";
import { useSeconds } from "../hooks/use-seconds.js";
import { instrumentName, marketName } from "../service/market-directory.js";
import type { Market } from "../service/messages.js";
import { BookPanels } from "./book-panels.js";
import { Instrument } from "./instrument.js";
import { MarketDataPanels } from "./market-data-panels.js";

/** All panels of a market that exists. */
export function MarketPage({ market, ...app }: AppProps & { readonly market: Market }) {
  const { books, status } = app;
  const { id } = market;
  const stream = useObservable(books.stream, (value) => value);
  const network = useObservable(status.status, (value) => value);
  const stale = useObservable(books.stale, (markets) => (markets.has(id) ? staleMarket(markets.get(id)) : undefined));
  useSeconds();
  const standstill = staleNetwork(network);
  const marketData = useMarketData(id, network.response?.marketsWithData);
  const data = marketData.value?.data;
  const name = marketName(id, market);
  const title = instrumentName(market);
  const state = enumName(data?.marketState ?? market.state, "STATE_");
  const mode = enumName(data?.marketTradingMode ?? market.tradingMode, "TRADING_MODE_");
  return (
    <>
      <div class="heading">
        <h1 title={name}>{name}</h1>
        <p id="market-state" class="quiet">
          <span class="name" title={title}>
            {title}
          </span>{" "}
          · {stale === undefined ? `${state} · ${mode}` : <strong class="stale-mark">{stale}</strong>}
        </p>
        <MarketChoice marketId={id} {...app} />
      </div>
      <div class="columns">
        <BookPanels
          books={books}
          market={market}
          stale={staleBooks(stream, network)}
          staleMarket={stale}
          standstill={standstill}
        />
        <div class="facts-column">
          <MarketDataPanels market={market} polled={marketData} standstill={standstill} />
          <Instrument market={market} />
        </div>
      </div>
    </>
  );
}
