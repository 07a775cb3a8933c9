import { isDeepStrictEqual } from "node:util";
import { ObserveCandleDataResponseSchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { type Candle, periodStart } from "../domain/candle.js";
import { Failure, unavailable } from "../domain/failure.js";
import { MessageResponse } from "../encoding/message-response.js";
import { type FeedOwner, type FeedReader, type FeedSource, nothingSent, Retry, readerStalled } from "../live/feed.js";
import type { LiveState } from "../live/live-state.js";
import type { Database } from "../store/database.js";
import { type CandleSeries, candleMessage, readCandlesFrom, readNewestCandle } from "./candle-reader.js";

type Schema = typeof ObserveCandleDataResponseSchema;
type Messages = ReturnType<FeedSource<Schema>["next"]>;

/** Candles that are remembered for slow readers. */
export const candlesRememberedMax = 1_000;

/** The pause before candles are read again after an error. Also the retry delay of a reader that is too slow. */
const retryAfterMs = 1_000;

/** A candle, and when it changed last, as a count. */
interface Version {
  readonly version: bigint;
  readonly message: MessageResponse<Schema>;
}

/**
 * The running candle of a series whenever it changes, and what was the running one since. A place counts changes: a slow
 * reader gets each candle as it is now.
 */
export class CandleFeed implements FeedSource<Schema> {
  readonly kind = "candles";
  readonly heartbeat = new MessageResponse(ObserveCandleDataResponseSchema, {});
  readonly readsFirst = true;
  readonly #database: Pick<Database, "lease">;
  readonly #state: LiveState;
  readonly #series: CandleSeries;
  readonly #owner: FeedOwner;
  /** By first trade, in the order of their last changes. */
  readonly #candles = new Map<bigint, Version>();
  #newest: Candle | undefined;
  /** When the period of the first read began. */
  #firstNs = 0n;
  /** The block up to which candles were read. */
  #seenHeight = 0n;
  #version = 0n;
  /** By the place before, as of the newest version. */
  readonly #known = new Map<bigint, Messages>();
  /** Changes before this are no longer remembered … */
  #forgotten = 0n;
  /** … because of this; undefined: they were too many. */
  #notKept: Failure | undefined;
  #isRead = false;
  /** Why the newest candle cannot be read: for readers that were sent nothing. */
  #unreadable: Failure | undefined;
  #isReading = false;
  readonly #retry: Retry;
  /** The market's last trade when candles were read: without another, they are the same. */
  #lastTrade: string | undefined;

  constructor(database: Pick<Database, "lease">, state: LiveState, series: CandleSeries, owner: FeedOwner) {
    this.#database = database;
    this.#state = state;
    this.#series = series;
    this.#owner = owner;
    this.#retry = new Retry(() => this.changed(), retryAfterMs, owner.log);
    this.changed();
  }

  changed(): void {
    const lastTrade = this.#state.requireMarket(this.#series.marketId).lastTrade?.version;
    if (this.#isReading || this.#retry.hasEnded) return;
    if (this.#isRead && lastTrade === this.#lastTrade) {
      // The blocks up to this one have no further candles, so that theirs may be dropped.
      this.#seenHeight = this.#state.progress.height;
      return;
    }
    this.#isReading = true;
    this.#read().then(
      () => {
        this.#isReading = false;
        this.#isRead = true;
        this.#unreadable = undefined;
        this.#lastTrade = lastTrade;
        this.#owner.wakeAll();
        this.changed();
      },
      (error: unknown) => {
        this.#isReading = false;
        if (error instanceof Failure && error.code === "failed_precondition") this.#failReaders(error);
        this.#retry.later(error);
      },
    );
  }

  /** Ends the readers of what is not kept. All others get the newest candle once it is read. */
  #failReaders(failure: Failure): void {
    if (this.#isRead) {
      this.#candles.clear();
      this.#known.clear();
      this.#newest = undefined;
      this.#isRead = false;
      this.#forgotten = ++this.#version;
      this.#notKept = failure;
    } else this.#unreadable = failure;
    this.#owner.wakeAll();
  }

  ended(): void {
    this.#retry.end();
  }

  next(place: bigint, reader: FeedReader): Messages {
    if (place === nothingSent && this.#unreadable !== undefined) reader.fail(this.#unreadable);
    else if (place !== nothingSent && place < this.#forgotten) reader.fail(this.#notKept ?? tooSlow());
    else if (place !== nothingSent || this.#isRead) {
      const messages = this.#known.get(place) ?? this.#behind(place);
      this.#known.set(place, messages);
      return messages;
    }
    return { responses: [], place };
  }

  #behind(place: bigint): Messages {
    const versions = [...this.#candles.values()];
    if (place === nothingSent && versions.length === 0) return { responses: [this.heartbeat], place: this.#version };
    const behind = place === nothingSent ? versions.slice(-1) : versions.filter(({ version }) => version > place);
    return { responses: behind.map(({ message }) => message), place: this.#version };
  }

  async #read(): Promise<void> {
    const { storeId, streamSequence, height, timeNs } = this.#state.progress;
    const lease = { class: "history", call: undefined, place: { storeId, streamSequence } } as const;
    await this.#database.lease(lease, async (reader) => {
      if (!this.#isRead) {
        const { newest, oldestNs } = await readNewestCandle(reader, this.#series);
        if (newest !== undefined) this.#note(newest);
        // Where there was none, all that come are of this period, if it is kept whole, or later.
        this.#firstNs = newest?.startNs ?? periodStart(timeNs, this.#series.seconds);
        if (this.#firstNs < oldestNs) this.#firstNs = oldestNs;
        return;
      }
      const startNs = this.#newest?.startNs ?? this.#firstNs;
      const candles = readCandlesFrom(reader, this.#series, startNs, this.#seenHeight);
      for await (const candle of candles) this.#note(candle);
    });
    this.#seenHeight = height;
  }

  #note(candle: Candle): void {
    const { firstTrade } = candle;
    const known = this.#newest;
    if (known !== undefined && firstTrade < known.firstTrade) return;
    const content = candleMessage(candle);
    if (firstTrade === known?.firstTrade && isDeepStrictEqual(content, candleMessage(known))) return;
    this.#newest = candle;
    this.#known.clear();
    this.#candles.delete(firstTrade);
    const message = new MessageResponse(ObserveCandleDataResponseSchema, { candle: content });
    this.#candles.set(firstTrade, { version: ++this.#version, message });
    if (this.#candles.size <= candlesRememberedMax) return;
    for (const [oldest, { version }] of this.#candles) {
      this.#candles.delete(oldest);
      this.#forgotten = version;
      this.#notKept = undefined;
      break;
    }
  }
}

function tooSlow(): Failure {
  const message = `the reader is more than ${candlesRememberedMax} candles behind; open the stream again, and list what it missed`;
  return unavailable(message, readerStalled, retryAfterMs);
}
