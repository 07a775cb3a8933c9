import { Fragment } from "preact";
import { instant } from "../../src/domain/instant.js";
import { Amount } from "../components/amount.js";
import { Scroll } from "../components/scroll.js";
import { missing, type Places, sizeLengthMax } from "../format/decimal.js";
import { enumName } from "../format/names.js";
import type { Trade } from "../service/messages.js";

const sideClasses: Readonly<Record<string, string>> = { SIDE_BUY: "buy", SIDE_SELL: "sell" };

interface TradesTableProps {
  readonly places: Places;
  /** Newest first. */
  readonly trades: readonly Trade[];
  /** Time of the newest block, in nanoseconds: trades of its day have no date. */
  readonly newest: string | undefined;
}

const dayOf = (timestamp: string | undefined) => instant(timestamp).slice(0, 10);

/** Trades of a market. */
export function TradesTable({ places, trades, newest }: TradesTableProps) {
  return (
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
          {trades.map((trade, index) => (
            <Fragment key={trade.id}>
              {dayOf(trade.timestamp) !== dayOf(index === 0 ? newest : trades[index - 1]?.timestamp) && (
                <tr class="trade-day">
                  <th scope="rowgroup" colSpan={4}>
                    {dayOf(trade.timestamp)}
                  </th>
                </tr>
              )}
              <TradeRow trade={trade} places={places} />
            </Fragment>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function TradeRow({ trade, places }: { readonly trade: Trade; readonly places: Places }) {
  const time = instant(trade.timestamp);
  return (
    <tr data-trade={trade.id} class={sideClasses[trade.aggressor]}>
      <td title={time}>
        {time.slice(11, 19)}
        <span class="milliseconds">{time.slice(19, 23)}</span>
      </td>
      <td class="price">
        <Amount value={trade.price} places={places.price} />
      </td>
      <td>
        <Amount value={trade.size} places={places.size} lengthMax={sizeLengthMax} />
      </td>
      <td>{trade.aggressor in sideClasses ? enumName(trade.aggressor, "SIDE_") : missing}</td>
    </tr>
  );
}
