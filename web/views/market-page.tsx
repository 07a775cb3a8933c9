import type { AppProps } from "../app.js";
import { MarketChoice } from "../components/market-choice.js";
import { enumName } from "../format/names.js";
import { useObservable } from "../hooks/observable.js";
import { staleBooks, staleNetwork } from "../hooks/staleness.js";
import { useNow } from "../hooks/use-now.js";
import { usePoll } from "../hooks/use-poll.js";
import { marketName } from "../service/market-directory.js";
import type { Market } from "../service/messages.js";
import { getMarketData } from "../service/service.js";
import { BookPanels } from "./book-panels.js";
import { Instrument } from "./instrument.js";
import { MarketDataPanels } from "./market-data-panels.js";

const marketDataPollMs = 1_000;

/** All panels of a market that exists. */
export function MarketPage({ market, ...app }: AppProps & { readonly market: Market }) {
  const { books, status } = app;
  const { id } = market;
  const stream = useObservable(books.stream, (value) => value);
  const network = useObservable(status.status, (value) => value);
  const now = useNow();
  const standstill = staleNetwork(network, now);
  const marketData = usePoll(() => getMarketData(id), marketDataPollMs, id);
  const data = marketData.value?.data;
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
        <BookPanels books={books} market={market} stale={staleBooks(stream, network, now)} standstill={standstill} />
        <div class="facts-column">
          <MarketDataPanels market={market} polled={marketData} standstill={standstill} />
          <Instrument market={market} />
        </div>
      </div>
    </>
  );
}
