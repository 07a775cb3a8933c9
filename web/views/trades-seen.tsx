import { useEffect, useState } from "preact/hooks";
import { instant } from "../../src/domain/instant.js";
import { Amount } from "../components/amount.js";
import { Card } from "../components/card.js";
import { Scroll } from "../components/scroll.js";
import { missing, sizeLengthMax } from "../format/decimal.js";
import { enumName } from "../format/names.js";
import { stalePoll } from "../hooks/staleness.js";
import { usePoll } from "../hooks/use-poll.js";
import { placesOf } from "../service/market-directory.js";
import type { Market, Trade } from "../service/messages.js";
import { getLastTrade } from "../service/service.js";

const tradesMax = 12;
const pollMs = 500;

/** Trades of a market, newest first, as responses named them. */
function useTradesSeen(newest: Trade | undefined): readonly Trade[] {
  const [trades, setTrades] = useState<readonly Trade[]>([]);
  useEffect(() => {
    if (newest === undefined) return;
    setTrades((seen) => (seen[0]?.id === newest.id ? seen : [newest, ...seen].slice(0, tradesMax)));
  }, [newest?.id]);
  return trades;
}

const sideClasses: Readonly<Record<string, string>> = { SIDE_BUY: "buy", SIDE_SELL: "sell" };

interface TradesSeenProps {
  readonly market: Market;
  /** Says since when the network stands still; undefined: it does not. */
  readonly standstill: string | undefined;
}

/** The trades seen while the page was open. */
export function TradesSeen({ market, standstill }: TradesSeenProps) {
  const lastTrade = usePoll(() => getLastTrade(market.id), pollMs, market.id);
  const trades = useTradesSeen(lastTrade.value);
  const places = placesOf(market);
  return (
    <Card title="Last trades seen" stale={stalePoll(lastTrade) ?? standstill}>
      {trades.length === 0 ? (
        <p class="quiet">None yet.</p>
      ) : (
        <Scroll label="Trades">
          <table id="trades" class="plain">
            <thead>
              <tr>
                <th scope="col">Time (UTC)</th>
                <th scope="col">Price</th>
                <th scope="col">Size</th>
                <th scope="col">Aggressor</th>
              </tr>
            </thead>
            <tbody>
              {trades.map((trade) => (
                <tr key={trade.id} class={sideClasses[trade.aggressor]}>
                  <td title={instant(trade.timestamp)}>
                    {instant(trade.timestamp).slice(11, 19)}
                    <span class="milliseconds">{instant(trade.timestamp).slice(19, 23)}</span>
                  </td>
                  <td class="price">
                    <Amount value={trade.price} places={places.price} />
                  </td>
                  <td>
                    <Amount value={trade.size} places={places.size} lengthMax={sizeLengthMax} />
                  </td>
                  <td>{trade.aggressor in sideClasses ? enumName(trade.aggressor, "SIDE_") : missing}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      <p class="quiet">The last trade of each response; trades between two responses are not seen.</p>
    </Card>
  );
}
