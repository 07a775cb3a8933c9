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
  /** From 1, the header included. */
  readonly row: number;
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

/**
 * A market's row. It is made anew only when one of its parts is another. It has no figures before the market's
 * definition is there, which states their decimals.
 */
export function MarketRow({ row, view, market, data }: MarketRowProps) {
  return useMemo(() => {
    const { quote, marketId } = view;
    const places = placesOf(market);
    const mode = data?.marketTradingMode ?? market?.tradingMode;
    const state = data?.marketState ?? market?.state;
    return (
      <tr data-market={marketId} aria-rowindex={row}>
        <th scope="row">
          <a class="market-link" href={marketHref(marketId)} title={marketId}>
            {marketName(marketId, market)}
          </a>
          <span class="quiet name">{market?.tradableInstrument?.instrument?.name}</span>
        </th>
        <td class="number price" data-label="Mid price">
          <Digits exact={market === undefined ? missing : midPrice(quote, places.price)} />
        </td>
        <td class="number" data-label="Since opened">
          <Change view={view} />
        </td>
        <td class="number spread" data-label="Spread">
          <Amount value={market && quote.spread} places={places.price} />
        </td>
        <td class="number" data-label="Bid volume">
          <Amount value={market && quote.bid?.volume} places={places.size} />
        </td>
        <td class="number" data-label="Ask volume">
          <Amount value={market && quote.ask?.volume} places={places.size} />
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
  }, [row, view, market, data]);
}
