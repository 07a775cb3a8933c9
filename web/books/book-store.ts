import { DepthBook, type DepthLevel, type DepthUpdate } from "../../src/domain/depth-book.js";
import { type Quote, quoteOf } from "../../src/domain/quote.js";
import { Observable } from "../hooks/observable.js";
import type { MarketDepthUpdate, MarketHistoryStatus, PriceLevel, ReplayMessage } from "../service/messages.js";
import { pausedText } from "../service/stream-limits.js";
import { chainChanged, DepthStream, type DepthStreamListener, type StreamLoss } from "./depth-stream.js";

/** Mid prices that are kept of each market, one a second. */
export const midSamplesMax = 3_600;
const midSampleMs = 1_000;
const nsPerMs = 1_000_000n;
/** A new connection has named all markets after this long. */
const wholeBooksMs = 5_000;
/** A page that is not shown gets no animation frames. */
const hiddenPublishMs = 1_000;

/** A market's mid price at a block. */
export interface MidSample {
  /** The block's time. */
  readonly atMs: number;
  /** Undefined: the page stopped following the market then, until the next sample. */
  readonly midTwice: bigint | undefined;
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
  readonly state: "connecting" | "live" | "lost" | "paused";
  /** When that began, in milliseconds. If lost or paused: when books were last up to date. */
  readonly since: number;
  /** Why the connection was lost or closed; otherwise empty. */
  readonly message: string;
}

/** Reads a market's definition again, as of a block or a later one. Resolves when it is shown. */
export type ReadDefinition = (marketId: string, blockHeight: bigint) => Promise<void>;

/**
 * The books of all markets, kept by folding one depth stream. Updates are folded as they arrive and published once per
 * animation frame, all markets in one step, so that whatever is on the screen at a moment is of one moment.
 */
export class BookStore implements DepthStreamListener {
  readonly views = new Observable<ReadonlyMap<string, BookView>>(new Map());
  /** Of all markets, those without a view included. It is the same list until a market comes or goes. */
  readonly marketIds = new Observable<readonly string[]>([]);
  /**
   * Markets whose books are wrong or missing before their venue's next snapshot, and since when, in milliseconds;
   * undefined: the page did not see it begin.
   */
  readonly stale = new Observable<ReadonlyMap<string, number | undefined>>(new Map());
  readonly stream = new Observable<StreamState>({ state: "connecting", since: Date.now(), message: "" });
  /** Changes when the service's database holds another chain: everything that was read of the last one is void. */
  readonly chain = new Observable(0);
  /** Updates of markets that came within the last second. */
  readonly updatesPerSecond = new Observable(0);
  #updatesCounted = 0;
  #books = new Map<string, DepthBook>();
  #generation = 0;
  readonly #known = new Set<string>();
  /** Time of the newest block, in milliseconds. */
  #newestMs = 0;
  readonly #mids = new Map<string, MidSample[]>();
  readonly #firstMids = new Map<string, bigint>();
  readonly #changed = new Set<string>();
  #publishing = false;
  /** Markets whose definition is read again before their book is shown, because its decimals may be others. */
  readonly #unread = new Set<string>();
  /** Those that are being read. */
  readonly #reading = new Set<string>();
  readonly #readDefinition: ReadDefinition;
  readonly #stream = new DepthStream(this);

  constructor(readDefinition: ReadDefinition) {
    this.#readDefinition = readDefinition;
  }

  start(): void {
    this.#stream.start();
    let countedAt = performance.now();
    setInterval(() => {
      const now = performance.now();
      const rate = Math.round((this.#updatesCounted * 1_000) / (now - countedAt));
      if (this.updatesPerSecond.value !== rate) this.updatesPerSecond.set(rate);
      this.#updatesCounted = 0;
      countedAt = now;
    }, 1_000);
  }

  /** Opens the stream at once if it is lost. */
  retry(): void {
    this.#stream.retry();
  }

  opened(goesOn: boolean): void {
    if (goesOn) return;
    this.#books = new Map();
    this.#reading.clear();
    this.#generation += 1;
    const generation = this.#generation;
    setTimeout(() => this.#dropOlderThan(generation), wholeBooksMs);
  }

  received({ update: updates, status, block }: ReplayMessage): boolean {
    this.#updatesCounted += updates.length;
    this.#newestMs = Number(BigInt(block.timestamp) / nsPerMs);
    for (const each of status) this.#noteState(each);
    for (const update of updates) {
      const { marketId } = update;
      const held = update.previousSequenceNumber === "0" ? undefined : this.#books.get(marketId);
      const book = held ?? new DepthBook(marketId);
      this.#books.set(marketId, book);
      this.#known.add(marketId);
      if (book.apply(toUpdate(update)) === "gap") return false;
      if (this.#unread.has(marketId)) this.#read(marketId, BigInt(block.height));
      else this.#changed.add(marketId);
    }
    if (this.stream.value.state !== "live") this.stream.set({ state: "live", since: Date.now(), message: "" });
    this.#publishSoon();
    return true;
  }

  /** A book that is wrong or missing goes, and so does one in other decimals. It comes back with its definition. */
  #noteState({ marketId, state }: MarketHistoryStatus): void {
    this.#known.add(marketId);
    const isStale = state === "MARKET_HISTORY_STATE_STALE";
    if (!isStale && state !== "MARKET_HISTORY_STATE_REDEFINED") return;
    this.#books.delete(marketId);
    this.#changed.delete(marketId);
    this.#reading.delete(marketId);
    this.#unread.add(marketId);
    if (isStale) {
      const since = this.#firstMids.has(marketId) ? Date.now() : undefined;
      this.stale.set(new Map([[marketId, since], ...this.stale.value]));
    }
    this.#setViews(new Map([...this.views.value].filter(([id]) => id !== marketId)));
  }

  lost({ message, reason, redefined }: StreamLoss): void {
    const isOtherChain = reason === chainChanged;
    if (isOtherChain || redefined) {
      // What is shown is not old, but wrong.
      for (const id of this.#known) this.#unread.add(id);
      // Nor may what arrived before be published.
      this.#books = new Map();
      for (const pending of [this.#changed, this.#reading]) pending.clear();
      if (isOtherChain) {
        for (const kept of [this.#known, this.#mids, this.#firstMids]) kept.clear();
        this.stale.set(new Map());
        this.chain.set(this.chain.value + 1);
      }
      this.#setViews(new Map());
    }
    this.#interrupt("lost", message);
  }

  paused(): void {
    // Decimals may change until the page is shown.
    for (const id of this.#known) this.#unread.add(id);
    this.#interrupt("paused", pausedText);
  }

  #interrupt(state: "lost" | "paused", message: string): void {
    const last = this.stream.value;
    const now = Date.now();
    if (last.state === "live") this.#endLines(this.#newestMs);
    const wasInterrupted = last.state === "lost" || last.state === "paused";
    this.stream.set({ state, since: wasInterrupted ? last.since : now, message });
  }

  /** Lines of mid prices reach until the newest block. A line that comes later is not connected with them. */
  #endLines(atMs: number): void {
    for (const mids of this.#mids.values()) {
      const newest = mids.at(-1);
      if (newest?.midTwice !== undefined) mids.push({ ...newest, atMs }, { atMs, midTwice: undefined });
    }
  }

  /** Puts mid prices from before the page was opened before those that it saw. */
  addEarlierMids(marketId: string, earlier: readonly MidSample[]): void {
    const mids = this.#mids.get(marketId) ?? [];
    this.#mids.set(marketId, mids);
    const firstMs = mids[0]?.atMs ?? Number.POSITIVE_INFINITY;
    const second = ({ atMs }: MidSample) => Math.floor(atMs / midSampleMs);
    const isLastOfSecond = (sample: MidSample, index: number) => {
      const next = earlier[index + 1];
      return sample.atMs < firstMs && (next === undefined || second(next) !== second(sample));
    };
    mids.unshift(...earlier.filter(isLastOfSecond));
  }

  /** A market's decimals are others than those that its book was shown in. */
  redefined(): void {
    this.#stream.beginAnew({ message: "a market has other decimals", reason: "MARKET_STALE", redefined: true });
  }

  /** Drops the book and the mid prices of a market whose decimals are others than those that they were kept in. */
  forgetPrices(marketId: string): void {
    this.#mids.delete(marketId);
    this.#firstMids.delete(marketId);
    // The book of a stream that was paused, which is shown until the next frame.
    this.#setViews(new Map([...this.views.value].filter(([id]) => id !== marketId)));
  }

  #read(marketId: string, blockHeight: bigint): void {
    const generation = this.#generation;
    if (this.#reading.has(marketId)) return;
    this.#reading.add(marketId);
    void this.#readDefinition(marketId, blockHeight).then(() => {
      // The stream may have ended meanwhile, for another definition.
      if (generation !== this.#generation || !this.#reading.delete(marketId)) return;
      this.#unread.delete(marketId);
      this.#changed.add(marketId);
      this.#publishSoon();
    });
  }

  /** Markets that a new connection does not name are those of another chain, unless they are stale. */
  #dropOlderThan(generation: number): void {
    if (generation !== this.#generation || this.stream.value.state !== "live") return;
    for (const id of this.#known) if (!this.#books.has(id) && !this.stale.value.has(id)) this.#known.delete(id);
    this.#setViews(this.views.value);
  }

  #publishSoon(): void {
    if (this.#publishing) return;
    this.#publishing = true;
    if (document.hidden) setTimeout(() => this.#publish(), hiddenPublishMs);
    else requestAnimationFrame(() => this.#publish());
  }

  #publish(): void {
    this.#publishing = false;
    const isLive = this.stream.value.state === "live";
    // With a new connection's first books, those of the last one go: its market may be stale, or of another chain.
    const views = new Map([...this.views.value].filter(([, view]) => !isLive || view.generation === this.#generation));
    const stale = new Map(this.stale.value);
    for (const id of this.#changed) {
      const book = this.#books.get(id);
      if (book === undefined) continue;
      views.set(id, this.#view(book));
      stale.delete(id);
    }
    this.#changed.clear();
    if (stale.size < this.stale.value.size) this.stale.set(stale);
    this.#setViews(views);
  }

  #setViews(views: ReadonlyMap<string, BookView>): void {
    this.views.set(views);
    const ids = [...this.#known];
    const last = this.marketIds.value;
    if (ids.length !== last.length || ids.some((id, index) => id !== last[index])) this.marketIds.set(ids);
  }

  #view(book: DepthBook): BookView {
    const buy = book.buy.slice();
    const sell = book.sell.slice();
    const quote = quoteOf(buy, sell);
    const firstMidTwice = this.#firstMids.get(book.marketId) ?? quote.midTwice;
    if (firstMidTwice !== undefined) this.#firstMids.set(book.marketId, firstMidTwice);
    return {
      marketId: book.marketId,
      buy,
      sell,
      sequenceNumber: book.sequenceNumber ?? 0n,
      quote,
      firstMidTwice,
      mids: this.#sampled(book.marketId, quote.midTwice),
      generation: this.#generation,
    };
  }

  /** Adds a mid price, or replaces the newest one of the same second. */
  #sampled(marketId: string, midTwice: bigint | undefined): readonly MidSample[] {
    const mids = this.#mids.get(marketId) ?? [];
    this.#mids.set(marketId, mids);
    if (midTwice === undefined) return mids;
    const atMs = this.#newestMs;
    const second = (sample: MidSample) => Math.floor(sample.atMs / midSampleMs);
    const sample = { atMs, midTwice };
    const newest = mids.at(-1);
    if (newest?.midTwice !== undefined && second(newest) === second(sample)) mids[mids.length - 1] = sample;
    else mids.push(sample);
    if (mids.length > midSamplesMax) mids.splice(0, mids.length - midSamplesMax);
    return mids;
  }
}

export function toUpdate(update: MarketDepthUpdate): DepthUpdate {
  return {
    marketId: update.marketId,
    buy: update.buy.map(toLevel),
    sell: update.sell.map(toLevel),
    sequenceNumber: BigInt(update.sequenceNumber),
    previousSequenceNumber: BigInt(update.previousSequenceNumber),
  };
}

export function toLevel({ price, volume, numberOfOrders }: PriceLevel): DepthLevel {
  return { price, volume: BigInt(volume), numberOfOrders: BigInt(numberOfOrders) };
}
