import { DepthBook } from "../../src/domain/depth-book.js";
import { quoteOf } from "../../src/domain/quote.js";
import { thrownText } from "../../src/domain/thrown-text.js";
import type { Places } from "../format/decimal.js";
import { Observable } from "../hooks/observable.js";
import type { BlockPlace, ReplayMessage, Trade } from "../service/messages.js";
import { apiUrl, findChange, getDepthAt, paths, ServiceError } from "../service/service.js";
import { type BookView, type MidSample, midSamplesMax, toLevel, toUpdate } from "./book-store.js";
import { errorIn, MessageParts } from "./depth-stream.js";

const nsPerMs = 1_000_000n;
/** The mid prices before a moment that are shown with it, in nanoseconds. */
const minuteNs = 60_000_000_000n;

/** The URL names the moment that is played this often. */
const nameIntervalMs = 1_000;

const newestFirst = ["pagination.newestFirst", "true"] as const;

const noneAfter = "The next part of the past is without a book. Choose a later time.";
const noneBefore = "There is no earlier change of this book, or the part of the past before it is without a book.";

/** How many times as fast as it happened. */
export const speeds = ["1×", "10×", "100×"] as const;
export type Speed = (typeof speeds)[number];

/** A market at a moment. */
export interface PastMoment {
  readonly block: BlockPlace;
  readonly view: BookView;
  readonly places: Places;
  /** Whether the book was not known then: it is empty. */
  readonly isStale: boolean;
  /** Undefined: there was none, or it is not known while the past is played. */
  readonly lastTrade: Trade | undefined;
}

/** The mid prices of the minute until a block, one for each block, by the times of the blocks. @throws Error */
export async function minuteUntil(marketId: string, timestamp: string): Promise<MidSample[]> {
  const until = BigInt(timestamp);
  const oldest = BigInt((await findChange(marketId, []))?.timestamp ?? timestamp);
  const from = until - minuteNs > oldest ? until - minuteNs : oldest;
  if (from >= until) return [];
  const query = new URLSearchParams({
    marketIds: marketId,
    fromTimestamp: String(from),
    untilTimestamp: String(until + 1n),
    everyUpdate: "true",
  });
  const response = await fetch(apiUrl(paths.depthReplay, query));
  if (!response.ok) throw new Error(`the service answered ${response.status}`);
  const parts = new MessageParts();
  let book = new DepthBook(marketId);
  let places: Places | undefined;
  const mids: MidSample[] = [];
  for (const line of (await response.text()).split("\n")) {
    const message = line === "" ? undefined : parts.add(line);
    if (message === undefined) continue;
    book = fold(book, message);
    const { midTwice } = quoteOf(book.buy, book.sell);
    const placesBefore = places;
    places = placesAfter(message, places);
    // Prices of different scales cannot be compared. After a stale part, new decimals come with the state WHOLE.
    if (places?.price !== placesBefore?.price) mids.length = 0;
    addMid(mids, message.block, midTwice);
  }
  return mids;
}

/** Adds a block's mid price. Undefined: a side of the book is empty, or it is not known; no list begins with that. */
function addMid(mids: MidSample[], block: BlockPlace, midTwice: bigint | undefined): void {
  if (midTwice !== undefined || mids.length > 0) mids.push({ atMs: millisecondsOf(block), midTwice });
}

function millisecondsOf({ timestamp }: BlockPlace): number {
  return Number(BigInt(timestamp) / nsPerMs);
}

/** The book after a message; another object if it came whole. */
function fold(book: DepthBook, { update, status }: ReplayMessage): DepthBook {
  let folded = status.some(({ state }) => state === "MARKET_HISTORY_STATE_STALE") ? new DepthBook(book.marketId) : book;
  for (const each of update) {
    if (each.previousSequenceNumber === "0") folded = new DepthBook(book.marketId);
    folded.apply(toUpdate(each));
  }
  return folded;
}

/** The decimals of a market after a message. */
function placesAfter<P extends Places | undefined>({ status }: ReplayMessage, before: P): P | Places {
  const last = status.at(-1);
  return last === undefined ? before : placesIn(last);
}

/** A market's book at moments of the past, and as it changed from there. */
export class PastMarket {
  /** Undefined: the present is shown, or the moment is being read. */
  readonly moment = new Observable<PastMoment | undefined>(undefined);
  /** Undefined: it stands still. */
  readonly playing = new Observable<Speed | undefined>(undefined);
  /** Why the moment cannot be shown; empty: it can. */
  readonly problem = new Observable("");
  readonly #marketId: string;
  /** Called when the moment is another one by itself: in nanoseconds, undefined when it is the present. */
  readonly #onMove: (timestamp: string | undefined) => void;
  /** What was asked for last. */
  #wanted: string | undefined;
  /** Counts what was asked for: the response to an earlier step is dropped. */
  #requests = 0;
  #namedAt = 0;
  #generation = 0;
  #source: EventSource | undefined;

  constructor(marketId: string, onMove: (timestamp: string | undefined) => void) {
    this.#marketId = marketId;
    this.#onMove = onMove;
  }

  /** Shows a moment in nanoseconds; undefined: the present. */
  async show(timestamp: string | undefined): Promise<void> {
    if (timestamp === this.#wanted) return;
    this.#stop();
    this.#wanted = timestamp;
    this.problem.set("");
    if (timestamp === undefined) return this.moment.set(undefined);
    try {
      const { block, lastTrade, ...depth } = await getDepthAt(this.#marketId, timestamp);
      // Another moment was asked for meanwhile.
      if (this.#wanted !== timestamp) return;
      const [buy, sell] = [depth.buy.map(toLevel), depth.sell.map(toLevel)];
      const sequenceNumber = BigInt(depth.sequenceNumber);
      const mids = await minuteUntil(this.#marketId, block.timestamp).catch(() => []);
      if (this.#wanted !== timestamp) return;
      this.#generation += 1;
      const view = this.#view({ buy, sell, sequenceNumber }, mids);
      this.moment.set({ block, view, places: placesIn(depth), isStale: false, lastTrade });
    } catch (thrown) {
      if (this.#wanted !== timestamp) return;
      this.moment.set(undefined);
      this.problem.set(thrownText(thrown));
    }
  }

  /** Goes to the block before or after that changed the book; to the present if the book has not changed since. */
  async step(by: -1 | 1): Promise<void> {
    this.pause();
    const from = this.moment.value?.block.timestamp;
    if (from === undefined) return;
    this.#stop();
    const request = this.#requests;
    // Unless the reader goes elsewhere meanwhile.
    const isAwaited = () => this.#requests === request;
    try {
      const change = await (by < 0 ? this.#changeBefore(from) : this.#changeAfter(from));
      if (isAwaited()) this.#onMove(change?.timestamp);
    } catch (thrown) {
      if (isAwaited()) this.problem.set(thrownText(thrown));
    }
  }

  /** The last change before a time. @throws Error if there is none, or it could not be read */
  async #changeBefore(timestamp: string): Promise<BlockPlace> {
    const change = await findChange(this.#marketId, [["untilTimestamp", timestamp], newestFirst]);
    if (change === undefined) throw new Error(noneBefore);
    return change;
  }

  /**
   * The first change after a time; undefined: the book has not changed since.
   * @throws Error if a part without a book follows, or the change could not be read
   */
  async #changeAfter(timestamp: string): Promise<BlockPlace | undefined> {
    const next = () => findChange(this.#marketId, [["fromTimestamp", String(BigInt(timestamp) + 1n)]]);
    try {
      const change = await next();
      if (change !== undefined) return change;
      const newest = await findChange(this.#marketId, [newestFirst]);
      if (newest === undefined || BigInt(newest.timestamp) <= BigInt(timestamp)) return undefined;
      // The newest change is later: made since the first request, or after a part without a book.
      const later = await next();
      if (later === undefined) throw new Error(noneAfter);
      return later;
    } catch (thrown) {
      if (thrown instanceof ServiceError && thrown.reason === "HISTORY_NOT_YET") return undefined;
      throw thrown;
    }
  }

  /** Plays from the moment on, until it is paused or has become the present. */
  play(speed: Speed): void {
    const { moment } = this;
    const start = moment.value;
    if (start === undefined) return;
    this.#stop();
    const query = new URLSearchParams({
      alt: "sse",
      marketIds: this.#marketId,
      fromTimestamp: start.block.timestamp,
      speed: speed.replace("×", ""),
    });
    const source = new EventSource(apiUrl(paths.depthReplay, query));
    const parts = new MessageParts();
    const mids = [...start.view.mids];
    let book = new DepthBook(this.#marketId);
    let { places, isStale } = start;
    this.#source = source;
    this.problem.set("");
    this.playing.set(speed);
    source.addEventListener("message", (event: MessageEvent<string>) => {
      const message = parts.add(event.data);
      if (message === undefined) return;
      if (message.caughtUp) {
        this.#stop();
        return this.#onMove(undefined);
      }
      book = fold(book, message);
      const status = message.status.at(-1);
      if (status !== undefined) isStale = status.state === "MARKET_HISTORY_STATE_STALE";
      const placesBefore = places;
      places = placesAfter(message, places);
      // Prices of different scales cannot be compared.
      if (places.price !== placesBefore.price) mids.length = 0;
      const { buy, sell, sequenceNumber = 0n } = book;
      const view = this.#view({ buy: buy.slice(), sell: sell.slice(), sequenceNumber }, mids);
      addMid(mids, message.block, view.quote.midTwice);
      if (mids.length > midSamplesMax) mids.shift();
      moment.set({ block: message.block, view, places, isStale, lastTrade: undefined });
      if (performance.now() - this.#namedAt > nameIntervalMs) this.#nameMoment();
    });
    source.addEventListener("error", (event) => {
      this.pause();
      this.problem.set(errorIn(event)?.message ?? "the connection was lost");
    });
  }

  /** Stands still at the newest moment that was played. */
  pause(): void {
    if (this.#source === undefined) return;
    this.#stop();
    this.#nameMoment();
  }

  #stop(): void {
    this.#requests += 1;
    this.#source?.close();
    this.#source = undefined;
    this.playing.set(undefined);
  }

  /** Tells of the moment that is shown, which is not asked for again then. */
  #nameMoment(): void {
    this.#namedAt = performance.now();
    this.#wanted = this.moment.value?.block.timestamp;
    this.#onMove(this.#wanted);
  }

  #view(book: Pick<BookView, "buy" | "sell" | "sequenceNumber">, mids: readonly MidSample[]): BookView {
    const quote = quoteOf(book.buy, book.sell);
    const generation = this.#generation;
    return { ...book, marketId: this.#marketId, quote, firstMidTwice: undefined, mids, generation };
  }
}

function placesIn(scale: { readonly decimalPlaces: string; readonly positionDecimalPlaces: string }): Places {
  return { price: Number(scale.decimalPlaces), size: Number(scale.positionDecimalPlaces) };
}
