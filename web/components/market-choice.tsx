import type { AppProps } from "../app.js";
import { useMarketNames } from "../hooks/use-market-names.js";
import { navigate, otherMarketHref } from "../route.js";

/** A list of all markets to change to, at the moment that is shown. */
export function MarketChoice({
  marketId,
  books,
  directory,
}: Pick<AppProps, "books" | "directory"> & { marketId: string }) {
  const options = useMarketNames(books, directory);
  return (
    <label class="choice">
      Market
      <select
        id="market-choice"
        value={marketId}
        onChange={(event) => navigate(otherMarketHref(event.currentTarget.value))}
      >
        {options.every(({ id }) => id !== marketId) && <option value={marketId}>{marketId}</option>}
        {options.map(({ id, label }) => (
          <option key={id} value={id}>
            {label}
          </option>
        ))}
      </select>
    </label>
  );
}
