import { useMemo } from "preact/hooks";
import type { BookStore } from "../books/book-store.js";
import { cut, nameLengthMax, withLabels } from "../format/names.js";
import { instrumentName, type MarketDirectory, marketName } from "../service/market-directory.js";
import { useObservable } from "./observable.js";

/** A market and what it is called. */
export interface NamedMarket {
  readonly id: string;
  readonly name: string;
  /** The name, cut, and the identifier where other markets have the same: no two markets have the same label. */
  readonly label: string;
  /** The long name of its instrument; empty while that is unknown. */
  readonly title: string;
  /** Identifier of its settlement asset; empty while that is unknown. */
  readonly assetId: string;
}

const { compare } = new Intl.Collator("en", { numeric: true });

/** All markets, ordered by name. It is the same list while no market and no name changes, whatever prices do. */
export function useMarketNames(books: BookStore, directory: MarketDirectory): readonly NamedMarket[] {
  const markets = useObservable(directory.markets, (value) => value);
  const ids = useObservable(books.marketIds, (value) => value);
  return useMemo(() => {
    const named = ids.map((id) => {
      const market = markets.get(id);
      const assetId = market?.tradableInstrument?.instrument?.future?.settlementAsset ?? "";
      return { id, name: marketName(id, market), title: instrumentName(market), assetId };
    });
    return withLabels(named).sort((a, b) => compare(a.label, b.label));
  }, [ids, markets]);
}

/** Which markets settle in an asset, in a few words; empty: none that is known. */
export function assetUse(assetId: string, markets: readonly NamedMarket[]): string {
  const [first, ...others] = markets.filter((market) => market.assetId === assetId);
  if (first === undefined) return "";
  const name = cut(first.name, nameLengthMax);
  return others.length === 0 ? `settles ${name}` : `settles ${name} and ${others.length} more`;
}
