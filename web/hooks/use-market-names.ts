import { useMemo } from "preact/hooks";
import type { BookStore } from "../books/book-store.js";
import { type MarketDirectory, marketName } from "../service/market-directory.js";
import { useObservable } from "./observable.js";

/** A market and what it is called. */
export interface NamedMarket {
  readonly id: string;
  readonly name: string;
}

const { compare } = new Intl.Collator();

/** All markets, ordered by name. It is the same list while no market and no name changes, whatever prices do. */
export function useMarketNames(books: BookStore, directory: MarketDirectory): readonly NamedMarket[] {
  const markets = useObservable(directory.markets, (value) => value);
  const ids = useObservable(books.marketIds, (value) => value);
  return useMemo(
    () => ids.map((id) => ({ id, name: marketName(id, markets.get(id)) })).sort((a, b) => compare(a.name, b.name)),
    [ids, markets],
  );
}
