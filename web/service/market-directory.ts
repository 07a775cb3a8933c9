import type { BookStore } from "../books/book-store.js";
import { shortId } from "../format/names.js";
import { Observable } from "../hooks/observable.js";
import type { Market } from "./messages.js";
import { getMarket } from "./service.js";

/** Definitions that are fetched at a time. */
const requestsMax = 4;
/** A definition is fetched for this many markets; the others are shown by their identifiers, without figures. */
const definitionsMax = 2_000;
const retryMs = 5_000;
/** Definitions that arrive within this time are shown together. */
const publishMs = 50;

/** Each market's definition, fetched once the depth stream has named the market. */
export class MarketDirectory {
  readonly markets = new Observable<ReadonlyMap<string, Market>>(new Map());
  readonly #wanted = new Set<string>();
  readonly #waiting: string[] = [];
  readonly #fetched: Market[] = [];
  #running = 0;

  /** Follows the markets of a store of books. */
  start(books: BookStore): void {
    const follow = () => {
      // The books were discarded: those that come next may be in other decimals.
      if (books.marketIds.value.length === 0) this.#forget();
      for (const id of books.marketIds.value) if (this.#wanted.size < definitionsMax) this.#want(id);
    };
    books.marketIds.subscribe(follow);
    follow();
  }

  /** Takes a newer definition of a market. */
  refresh(market: Market): void {
    this.#wanted.add(market.id);
    if (this.#fetched.push(market) === 1) setTimeout(() => this.#publish(), publishMs);
  }

  #forget(): void {
    this.#wanted.clear();
    this.#fetched.length = 0;
    if (this.markets.value.size > 0) this.markets.set(new Map());
  }

  #publish(): void {
    const markets = new Map(this.markets.value);
    for (const market of this.#fetched.splice(0)) markets.set(market.id, market);
    this.markets.set(markets);
  }

  #want(id: string): void {
    if (this.#wanted.has(id)) return;
    this.#wanted.add(id);
    this.#waiting.push(id);
    this.#fetchNext();
  }

  #fetchNext(): void {
    if (this.#running >= requestsMax) return;
    const id = this.#waiting.shift();
    if (id === undefined) return;
    this.#running += 1;
    getMarket(id)
      .then(
        (market) => this.refresh(market),
        () => setTimeout(() => this.#retry(id), retryMs),
      )
      .finally(() => {
        this.#running -= 1;
        this.#fetchNext();
      });
  }

  #retry(id: string): void {
    this.#waiting.push(id);
    this.#fetchNext();
  }
}

/** What a market is called: its instrument's code, or its identifier while that is unknown. */
export function marketName(id: string, market: Market | undefined): string {
  const instrument = market?.tradableInstrument?.instrument;
  return instrument?.code || instrument?.name || shortId(id);
}

/** Decimal places of a market's prices and sizes. */
export interface Places {
  readonly price: number;
  readonly size: number;
}

/** 0 while they are unknown. */
export function placesOf(market: Market | undefined): Places {
  return { price: Number(market?.decimalPlaces ?? 0), size: Number(market?.positionDecimalPlaces ?? 0) };
}
