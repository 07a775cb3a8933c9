import { useEffect } from "preact/hooks";
import type { AppProps } from "../app.js";
import { Calls } from "../calls/calls.js";
import { MarketChoice } from "../components/market-choice.js";
import { useObservable } from "../hooks/observable.js";
import { usePoll } from "../hooks/use-poll.js";
import { getMarket } from "../service/service.js";
import { marketCalls } from "./market-calls.js";
import { MarketPage } from "./market-page.js";

const marketPollMs = 10_000;

interface MarketViewProps extends AppProps {
  readonly marketId: string;
  /** The moment that is shown, in Unix nanoseconds; undefined: now. */
  readonly at: string | undefined;
  /** The interval of candles that was chosen. */
  readonly interval: string;
}

/** One market: its book, charts, trades and data. */
export function MarketView({ marketId, at, interval, ...app }: MarketViewProps) {
  const { value: response, error } = usePoll(() => getMarket(marketId), marketPollMs, marketId);
  useEffect(() => {
    if (response !== undefined) app.directory.refresh(response);
  }, [response, app.directory]);
  // The directory's definition is the one that the book's numbers are scaled by.
  const market = useObservable(app.directory.markets, (markets) => markets.get(marketId));
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
      {market !== undefined && <MarketPage market={market} at={at} interval={interval} {...app} />}
      <Calls calls={marketCalls(marketId, at)} />
    </>
  );
}
