import { useMemo } from "preact/hooks";
import type { BookView, MidSample } from "../books/book-store.js";
import { midPrice } from "../books/quote.js";
import { Amount, Digits } from "../components/amount.js";
import { Sparkline } from "../components/sparkline.js";
import { missing, percentage } from "../format/decimal.js";
import { enumName } from "../format/names.js";
import { marketHref } from "../route.js";
import { instrumentName, placesOf } from "../service/market-directory.js";
import type { Market, MarketData } from "../service/messages.js";

const noMids: readonly MidSample[] = [];

interface MarketRowProps {
  /** From 1, the header included. */
  readonly row: number;
  readonly marketId: string;
  readonly label: string;
  /** Undefined: the market has no right book now. */
  readonly view: BookView | undefined;
  /** Says that the market is stale; empty: it is not. */
  readonly staleText: string;
  readonly market: Market | undefined;
  readonly data: MarketData | undefined;
}

function Change({ view }: { readonly view: BookView | undefined }) {
  const firstMidTwice = view?.firstMidTwice;
  const midTwice = view?.quote.midTwice;
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
export function MarketRow({ row, marketId, label, view, staleText, market, data }: MarketRowProps) {
  return useMemo(() => {
    const quote = market && view?.quote;
    const places = placesOf(market);
    const title = instrumentName(market);
    const mode = data?.marketTradingMode ?? market?.tradingMode;
    const state = data?.marketState ?? market?.state;
    return (
      <tr data-market={marketId} aria-rowindex={row}>
        <th scope="row">
          <a class="market-link" href={marketHref(marketId)} title={marketId}>
            {label}
          </a>
          <span class="quiet name" title={title}>
            {title}
          </span>
        </th>
        <td class="number price" data-label="Mid price">
          <Digits exact={quote === undefined ? missing : midPrice(quote, places.price)} />
        </td>
        <td class="number" data-label="Since opened">
          <Change view={view} />
        </td>
        <td class="number spread" data-label="Spread">
          <Amount value={quote?.spread} places={places.price} />
        </td>
        <td class="number" data-label="Bid volume">
          <Amount value={quote?.bid?.volume} places={places.size} />
        </td>
        <td class="number" data-label="Ask volume">
          <Amount value={quote?.ask?.volume} places={places.size} />
        </td>
        <td class="mode" data-label="Mode">
          {staleText !== "" && <strong class="stale-mark">{staleText}</strong>}
          {staleText === "" && state !== "STATE_ACTIVE" && state !== undefined && `${enumName(state, "STATE_")}, `}
          {staleText === "" && enumName(mode, "TRADING_MODE_")}
        </td>
        <td class="trend">
          <Sparkline mids={view?.mids ?? noMids} />
        </td>
      </tr>
    );
  }, [row, marketId, label, view, staleText, market, data]);
}
