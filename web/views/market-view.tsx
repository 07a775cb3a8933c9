import { useEffect } from "preact/hooks";
import type { AppProps } from "../app.js";
import { Calls } from "../calls/calls.js";
import { MarketChoice } from "../components/market-choice.js";
import { useObservable } from "../hooks/observable.js";
import { usePoll } from "../hooks/use-poll.js";
import type { MarketRoute } from "../route.js";
import { getMarket } from "../service/service.js";
import { marketCalls } from "./market-calls.js";
import { MarketPage } from "./market-page.js";

const marketPollMs = 10_000;

/** One market: its book, charts, trades and data. */
export function MarketView({ shown, ...app }: AppProps & { readonly shown: MarketRoute }) {
  const { marketId, at } = shown;
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
      {market !== undefined && <MarketPage market={market} shown={shown} {...app} />}
      <Calls calls={marketCalls(marketId, at)} />
    </>
  );
}
