import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";
import type { AppProps } from "../app.js";
import { minuteUntil, PastMarket } from "../books/past-market.js";
import { MarketChoice } from "../components/market-choice.js";
import { TimeControl } from "../components/time-control.js";
import { enumName } from "../format/names.js";
import { useObservable } from "../hooks/observable.js";
import { lostBooks, staleMarket, staleNetwork } from "../hooks/staleness.js";
import { useMarketData } from "../hooks/use-market-data.js";
import { type MarketRoute, showMarket } from "../route.js";
import { instrumentName, marketName, placesOf } from "../service/market-directory.js";
import type { Market } from "../service/messages.js";
import { findChange } from "../service/service.js";
import { BookPanels } from "./book-panels.js";
import { CandlesCard } from "./candles-card.js";
import { Instrument } from "./instrument.js";
import { MarketDataPanels } from "./market-data-panels.js";
import { PastPanels } from "./past-panels.js";
import { TradesCard } from "./trades-card.js";

/** The past of a market, which follows the URL, and the time of its oldest block. */
function usePast(marketId: string, at: string | undefined) {
  const past = useMemo(() => new PastMarket(marketId, (moment) => showMarket(marketId, { at: moment })), [marketId]);
  const [oldest, setOldest] = useState<string | undefined>(undefined);
  useEffect(() => {
    void findChange(marketId, []).then(
      (block) => setOldest(block?.timestamp),
      () => {},
    );
    return () => void past.show(undefined);
  }, [past]);
  // At once: an effect that runs late would ask for a moment that was played before, and end the play.
  useLayoutEffect(() => void past.show(at), [past, at]);
  return { past, oldest };
}

/** The mid prices of the minute before the page was opened. */
function useLastMinute({ books }: AppProps, marketId: string, newest: string | undefined): void {
  const isKnown = newest !== undefined;
  useEffect(() => {
    if (newest === undefined) return undefined;
    let over = false;
    void minuteUntil(marketId, newest).then(
      (mids) => over || books.addEarlierMids(marketId, mids),
      () => {},
    );
    return () => {
      over = true;
    };
  }, [marketId, isKnown]);
}

interface MarketPageProps extends AppProps {
  readonly market: Market;
  readonly shown: MarketRoute;
}

/** All panels of a market that exists. */
export function MarketPage({ market, shown, ...app }: MarketPageProps) {
  const { at, unreadAt, interval } = shown;
  const { books, status } = app;
  const { id } = market;
  const stream = useObservable(books.stream, (value) => value);
  const network = useObservable(status.status, (value) => value);
  const stale = useObservable(books.stale, (markets) => (markets.has(id) ? staleMarket(markets.get(id)) : undefined));
  const standstillText = staleNetwork(network);
  // Said once, and not in each card.
  const standstill = standstillText === undefined ? undefined : "";
  const { past, oldest } = usePast(id, at);
  const isPlaying = useObservable(past.playing, (speed) => speed !== undefined);
  const then = useObservable(past.moment, (moment) => moment?.places);
  // In the decimals of the moment that is shown: a market's may change.
  const places = then ?? placesOf(market);
  const newest = network.response?.blockTimestamp;
  const isFuture = at !== undefined && newest !== undefined && BigInt(at) > BigInt(newest);
  useLastMinute(app, id, newest);
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
          ·{" "}
          {at !== undefined ? (
            `in the ${isFuture ? "future" : "past"}`
          ) : stale === undefined ? (
            `${state} · ${mode}`
          ) : (
            <strong class="stale-mark">{stale}</strong>
          )}
        </p>
        <MarketChoice marketId={id} {...app} />
      </div>
      {unreadAt !== undefined && (
        <p id="unread-at" class="notice">
          {unreadAt}. This is the present.
        </p>
      )}
      {at === undefined && standstillText !== undefined && <p class="notice">{standstillText}</p>}
      <TimeControl past={past} marketId={id} at={at} oldest={oldest} newest={newest} />
      <CandlesCard marketId={id} interval={interval} {...{ places, at, isFuture, standstill }} />
      <div class="columns">
        {at === undefined ? (
          <BookPanels books={books} market={market} stale={lostBooks(stream) ?? standstill} staleMarket={stale} />
        ) : (
          <PastPanels past={past} />
        )}
        <div class="facts-column">
          {isPlaying || (
            <TradesCard key={at} {...{ marketId: id, places, at, page: shown.trades, newest, standstill }} />
          )}
          {at === undefined ? (
            <MarketDataPanels market={market} polled={marketData} standstill={standstill} />
          ) : (
            <p id="no-past-data" class="quiet">
              Market data and price bounds are shown of the present only.
            </p>
          )}
          <Instrument market={market} />
        </div>
      </div>
    </>
  );
}
