import { DepthBook, type DepthLevel, type DepthUpdate } from "../../src/domain/depth-book.js";
import { type Quote, quoteOf } from "../../src/domain/quote.js";
import { Observable } from "../hooks/observable.js";
import type { MarketDepthUpdate, PriceLevel } from "../service/messages.js";
import { DepthStream, type DepthStreamListener } from "./depth-stream.js";

/** Mid prices that are kept of each market, one a second. */
const midSamplesMax = 3_600;
const midSampleMs = 1_000;
/** A new connection has named all markets after this long. */
const wholeBooksMs = 5_000;
/** A page that is not shown gets no animation frames. */
const hiddenPublishMs = 1_000;

/** A market's mid price at a moment. */
export interface MidSample {
  readonly atMs: number;
  readonly midTwice: bigint;
}

/** The book of a market as all panels show it: it is replaced, and never changes. */
export interface BookView {
  readonly marketId: string;
  /** Best first. */
  readonly buy: readonly DepthLevel[];
  /** Best first. */
  readonly sell: readonly DepthLevel[];
  readonly sequenceNumber: bigint;
  readonly quote: Quote;
  /** The first mid price since the page was opened; undefined: none yet. */
  readonly firstMidTwice: bigint | undefined;
  /** One a second, oldest first. The list goes on growing under the same view. */
  readonly mids: readonly MidSample[];
  /** Times that whole books replaced this one. What changes with it did not change in the market. */
  readonly generation: number;
}

/** Whether books are up to date. */
export interface StreamState {
  readonly state: "connecting" | "live" | "lost";
  /** When that began, in milliseconds. */
  readonly since: number;
  /** Why the connection was lost; otherwise empty. */
  readonly message: string;
}

/**
 * The books of all markets, kept by folding one depth stream. Updates are folded as they arrive and published once per
 * animation frame, all markets in one step, so that whatever is on the screen at a moment is of one moment.
 */
export class BookStore implements DepthStreamListener {
  readonly views = new Observable<ReadonlyMap<string, BookView>>(new Map());
  /** Of all views. It is the same list until a market comes or goes. */
  readonly marketIds = new Observable<readonly string[]>([]);
  readonly stream = new Observable<StreamState>({ state: "connecting", since: Date.now(), message: "" });
  /** Updates of markets that came within the last second. */
  readonly updatesPerSecond = new Observable(0);
  #updatesCounted = 0;
  #books = new Map<string, DepthBook>();
  #generation = 0;
  readonly #mids = new Map<string, MidSample[]>();
  readonly #changed = new Set<string>();
  #publishing = false;

  start(): void {
    new DepthStream(this).open();
    let countedAt = performance.now();
    setInterval(() => {
      const now = performance.now();
      const rate = Math.round((this.#updatesCounted * 1_000) / (now - countedAt));
      if (this.updatesPerSecond.value !== rate) this.updatesPerSecond.set(rate);
      this.#updatesCounted = 0;
      countedAt = now;
    }, 1_000);
  }

  opened(): void {
    this.#books = new Map();
    this.#generation += 1;
    const generation = this.#generation;
    setTimeout(() => this.#dropOlderThan(generation), wholeBooksMs);
  }

  received(updates: readonly MarketDepthUpdate[]): boolean {
    this.#updatesCounted += updates.length;
    for (const update of updates) {
      const book = this.#books.get(update.marketId) ?? new DepthBook(update.marketId);
      this.#books.set(update.marketId, book);
      if (book.apply(toUpdate(update)) === "gap") return false;
      this.#changed.add(update.marketId);
    }
    if (this.stream.value.state !== "live") this.stream.set({ state: "live", since: Date.now(), message: "" });
    this.#publishSoon();
    return true;
  }

  lost(message: string, reason: string): void {
    // Another chain has other markets, and a stale market another book: what is shown is not old, but wrong.
    if (reason === "CHAIN_CHANGED" || reason === "MARKET_STALE") this.#setViews(new Map());
    const { state, since } = this.stream.value;
    this.stream.set({ state: "lost", since: state === "lost" ? since : Date.now(), message });
  }

  /** Markets that a new connection does not name are those of another chain. */
  #dropOlderThan(generation: number): void {
    if (generation !== this.#generation || this.stream.value.state !== "live") return;
    const views = [...this.views.value].filter(([, view]) => view.generation === generation);
    if (views.length < this.views.value.size) this.#setViews(new Map(views));
  }

  #publishSoon(): void {
    if (this.#publishing) return;
    this.#publishing = true;
    if (document.hidden) setTimeout(() => this.#publish(), hiddenPublishMs);
    else requestAnimationFrame(() => this.#publish());
  }

  #publish(): void {
    this.#publishing = false;
    const views = new Map(this.views.value);
    for (const id of this.#changed) {
      const book = this.#books.get(id);
      if (book !== undefined) views.set(id, this.#view(book, views.get(id)));
    }
    this.#changed.clear();
    this.#setViews(views);
  }

  #setViews(views: ReadonlyMap<string, BookView>): void {
    this.views.set(views);
    const ids = [...views.keys()];
    const last = this.marketIds.value;
    if (ids.length !== last.length || ids.some((id, index) => id !== last[index])) this.marketIds.set(ids);
  }

  #view(book: DepthBook, last: BookView | undefined): BookView {
    const buy = book.buy.slice();
    const sell = book.sell.slice();
    const quote = quoteOf(buy, sell);
    return {
      marketId: book.marketId,
      buy,
      sell,
      sequenceNumber: book.sequenceNumber ?? 0n,
      quote,
      firstMidTwice: last?.firstMidTwice ?? quote.midTwice,
      mids: this.#sampled(book.marketId, quote.midTwice),
      generation: this.#generation,
    };
  }

  /** Adds a mid price, or replaces the newest one of the same second. */
  #sampled(marketId: string, midTwice: bigint | undefined): readonly MidSample[] {
    const mids = this.#mids.get(marketId) ?? [];
    this.#mids.set(marketId, mids);
    if (midTwice === undefined) return mids;
    const atMs = Date.now();
    const second = (sample: MidSample) => Math.floor(sample.atMs / midSampleMs);
    const sample = { atMs, midTwice };
    const newest = mids.at(-1);
    if (newest !== undefined && second(newest) === second(sample)) mids[mids.length - 1] = sample;
    else mids.push(sample);
    if (mids.length > midSamplesMax) mids.shift();
    return mids;
  }
}

function toUpdate(update: MarketDepthUpdate): DepthUpdate {
  return {
    marketId: update.marketId,
    buy: update.buy.map(toLevel),
    sell: update.sell.map(toLevel),
    sequenceNumber: BigInt(update.sequenceNumber),
    previousSequenceNumber: BigInt(update.previousSequenceNumber),
  };
}

function toLevel({ price, volume, numberOfOrders }: PriceLevel): DepthLevel {
  return { price, volume: BigInt(volume), numberOfOrders: BigInt(numberOfOrders) };
}
