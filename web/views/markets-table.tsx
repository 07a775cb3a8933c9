import { useRef } from "preact/hooks";
import type { AppProps } from "../app.js";
import { Scroll } from "../components/scroll.js";
import { useObservable } from "../hooks/observable.js";
import { staleMarket } from "../hooks/staleness.js";
import { useHeldOrder } from "../hooks/use-held-order.js";
import type { NamedMarket } from "../hooks/use-market-names.js";
import { useVisibleRows } from "../hooks/use-visible-rows.js";
import type { MarketData } from "../service/messages.js";
import { MarketRow } from "./market-row.js";

interface MarketsTableProps extends Pick<AppProps, "books" | "directory"> {
  /** In the order of the rows, while none of them has the focus. */
  readonly named: readonly NamedMarket[];
  readonly data: ReadonlyMap<string, MarketData>;
}

/** Space for rows that are not rendered. */
function Space({ rows, rowHeightPx }: { readonly rows: number; readonly rowHeightPx: number }) {
  if (rows <= 0) return null;
  return (
    <tbody class="space" aria-hidden="true">
      <tr style={{ height: `${rows * rowHeightPx}px` }} />
    </tbody>
  );
}

/** Markets, a row each. Rows that are not on the screen are not rendered, however many markets change. */
export function MarketsTable({ named, data, books, directory }: MarketsTableProps) {
  const views = useObservable(books.views, (value) => value);
  const stale = useObservable(books.stale, (value) => value);
  const markets = useObservable(directory.markets, (value) => value);
  const table = useRef<HTMLTableElement>(null);
  const rows = useHeldOrder(table, named);
  const { start, end, rowHeightPx } = useVisibleRows(table, rows);
  return (
    <Scroll label="All markets">
      <table id="markets" class="markets" ref={table} aria-rowcount={rows.length + 1}>
        <caption class="visually-hidden">
          Markets with the mid price, its change since this page was opened, spread and volume at the best prices
        </caption>
        <thead>
          <tr aria-rowindex={1}>
            <th scope="col">Market</th>
            <th scope="col">Mid price</th>
            <th scope="col">Since opened</th>
            <th scope="col">Spread</th>
            <th scope="col">Bid volume</th>
            <th scope="col">Ask volume</th>
            <th scope="col">Mode</th>
            <th scope="col">Trend</th>
          </tr>
        </thead>
        <Space rows={start} rowHeightPx={rowHeightPx} />
        <tbody>
          {rows.slice(start, end).map(({ id, label }, index) => (
            <MarketRow
              key={id}
              row={start + index + 2}
              marketId={id}
              label={label}
              view={views.get(id)}
              staleText={stale.has(id) ? staleMarket(stale.get(id)) : ""}
              market={markets.get(id)}
              data={data.get(id)}
            />
          ))}
        </tbody>
        <Space rows={rows.length - end} rowHeightPx={rowHeightPx} />
      </table>
    </Scroll>
  );
}
