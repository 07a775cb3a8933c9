import { useMemo } from "preact/hooks";
import type { BookView } from "../books/book-store.js";
import { midPrice } from "../books/quote.js";
import { Amount, Digits } from "../components/amount.js";
import { Sparkline } from "../components/sparkline.js";
import { missing, percentage } from "../format/decimal.js";
import { enumName } from "../format/names.js";
import { marketHref } from "../route.js";
import { marketName, placesOf } from "../service/market-directory.js";
import type { Market, MarketData } from "../service/messages.js";

interface MarketRowProps {
  readonly view: BookView;
  readonly market: Market | undefined;
  readonly data: MarketData | undefined;
}

function Change({ view }: { readonly view: BookView }) {
  const { firstMidTwice } = view;
  const { midTwice } = view.quote;
  if (firstMidTwice === undefined || midTwice === undefined) return <span>{missing}</span>;
  const change = percentage(midTwice - firstMidTwice, firstMidTwice);
  // As it is rounded: 0.00 % is neither.
  const trend = change.startsWith("+") ? "up" : change.startsWith("−") ? "down" : "same";
  return (
    <span class="change" data-trend={trend}>
      {change}
    </span>
  );
}

/** A market's row. It is made anew only when one of its parts is another. */
export function MarketRow({ view, market, data }: MarketRowProps) {
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
        <td class="number" data-label="Since opened">
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
