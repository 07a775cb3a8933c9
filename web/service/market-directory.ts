import type { BookStore } from "../books/book-store.js";
import type { Places } from "../format/decimal.js";
import { printable, shortId } from "../format/names.js";
import { Observable } from "../hooks/observable.js";
import type { Market } from "./messages.js";
import { getMarket, type MarketResponse } from "./service.js";

/** Definitions that are fetched at a time. */
const requestsMax = 4;
/** A definition is fetched for this many markets; the others are shown by their identifiers, without figures. */
const definitionsMax = 2_000;
const retryMs = 5_000;
/** Until a process of the service that is a little behind another one is asked again. */
const behindMs = 100;
/** Definitions that arrive within this time are shown together. */
const publishMs = 50;

/** A definition that is to be fetched. */
interface Wanted {
  readonly id: string;
  /** As of this block or a later one. */
  readonly blockHeight: bigint;
  /** Called when it is shown. Undefined: the market's book is shown meanwhile. */
  readonly done?: () => void;
}

/** A definition that was fetched, and is to be shown. */
interface Fetched extends MarketResponse {
  readonly done: (() => void) | undefined;
}

/** Each market's definition, fetched once the depth stream has named the market, and again after it was lost. */
export class MarketDirectory {
  readonly markets = new Observable<ReadonlyMap<string, Market>>(new Map());
  readonly #known = new Set<string>();
  /** Block of the definition that is shown. */
  readonly #blockHeights = new Map<string, bigint>();
  readonly #waiting: Wanted[] = [];
  readonly #fetched: Fetched[] = [];
  #running = 0;
  /** Counts the chains: responses to requests of an earlier one are dropped. */
  #generation = 0;
  #books: BookStore | undefined;

  /** Follows the markets of a store of books. */
  start(books: BookStore): void {
    this.#books = books;
    const follow = () => {
      for (const id of books.marketIds.value) if (this.#known.size < definitionsMax) this.#want(id);
    };
    books.chain.subscribe(() => this.#forget());
    books.marketIds.subscribe(follow);
    follow();
    let wasLost = false;
    books.stream.subscribe(() => {
      const { state } = books.stream.value;
      if (state === "live" && wasLost) {
        // Of another chain, too, a late response may have come, and its blocks may be higher.
        this.#blockHeights.clear();
        for (const id of this.#known) this.#fetch({ id, blockHeight: 0n });
      }
      if (state !== "connecting") wasLost = state === "lost";
    });
  }

  /** The service has another chain: definitions of the last one say nothing about it. */
  #forget(): void {
    this.#generation += 1;
    this.#known.clear();
    this.#blockHeights.clear();
    this.#waiting.length = 0;
    this.#fetched.length = 0;
    this.markets.set(new Map());
  }

  /** Takes a newer definition of a market. */
  refresh(response: MarketResponse): void {
    this.#known.add(response.market.id);
    this.#take({ ...response, done: undefined });
  }

  /** Fetches a market's definition as of a block or a later one. Resolves when it is shown. */
  read(id: string, blockHeight: bigint): Promise<void> {
    this.#known.add(id);
    return new Promise((done) => this.#fetch({ id, blockHeight, done }));
  }

  #take(fetched: Fetched): void {
    if (this.#fetched.push(fetched) === 1) setTimeout(() => this.#publish(), publishMs);
  }

  #publish(): void {
    const markets = new Map(this.markets.value);
    const fetched = this.#fetched.splice(0);
    let isRescaled = false;
    for (const { market, blockHeight, done } of fetched) {
      const shown = markets.get(market.id);
      if (shown !== undefined && blockHeight < (this.#blockHeights.get(market.id) ?? 0n)) continue;
      if (shown !== undefined && !hasSameScale(shown, market)) {
        this.#books?.forgetPrices(market.id);
        isRescaled ||= done === undefined;
      }
      markets.set(market.id, market);
      this.#blockHeights.set(market.id, blockHeight);
    }
    // Before anything renders: the books of the old scale go.
    if (isRescaled) this.#books?.redefined();
    this.markets.set(markets);
    for (const { done } of fetched) done?.();
  }

  #want(id: string): void {
    if (this.#known.has(id)) return;
    this.#known.add(id);
    this.#fetch({ id, blockHeight: 0n });
  }

  #fetch(wanted: Wanted): void {
    this.#waiting.push(wanted);
    this.#fetchNext();
  }

  #fetchNext(): void {
    if (this.#running >= requestsMax) return;
    const wanted = this.#waiting.shift();
    if (wanted === undefined) return;
    const generation = this.#generation;
    const again = (afterMs: number) =>
      setTimeout(() => {
        if (generation === this.#generation) this.#fetch(wanted);
      }, afterMs);
    this.#running += 1;
    getMarket(wanted.id)
      .then(
        (response) => {
          if (generation !== this.#generation) return;
          if (response.blockHeight < wanted.blockHeight) again(behindMs);
          else this.#take({ ...response, done: wanted.done });
        },
        () => again(retryMs),
      )
      .finally(() => {
        this.#running -= 1;
        this.#fetchNext();
      });
  }
}

function hasSameScale(a: Market, b: Market): boolean {
  return a.decimalPlaces === b.decimalPlaces && a.positionDecimalPlaces === b.positionDecimalPlaces;
}

/** What a market is called: its instrument's code, or its identifier while that is unknown. */
export function marketName(id: string, market: Market | undefined): string {
  const instrument = market?.tradableInstrument?.instrument;
  return printable(instrument?.code || instrument?.name || "") || shortId(id);
}

/** The long name of a market's instrument; empty: it has none. */
export function instrumentName(market: Market | undefined): string {
  return printable(market?.tradableInstrument?.instrument?.name ?? "");
}

/** Decimal places of a market's prices and sizes; 0 while they are unknown. */
export function placesOf(market: Market | undefined): Places {
  return { price: Number(market?.decimalPlaces ?? 0), size: Number(market?.positionDecimalPlaces ?? 0) };
}
