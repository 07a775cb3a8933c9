import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  type BlockPlace,
  MarketHistoryState,
  type MarketHistoryStatus,
  type ReplayMarketsDepthRequestSchema,
  type ReplayMarketsDepthResponse,
} from "../../../gen/marketd/history/v1/market_history_pb.js";
import type { MarketDepthUpdate } from "../../../gen/vega/vega_pb.js";
import { DepthBook, type DepthLevel } from "../../../src/domain/depth-book.js";
import { quoted } from "../../../src/domain/printable.js";
import type { MarketdClient } from "./client.js";
import { isTransient } from "./retry.js";
import { type StreamOptions, streamEnded, watched, withRetries } from "./stream.js";
import { nanosecondsOf, type Time } from "./time.js";

/** The token that opens a stream at the newest block. */
const newest = "live";

/** A price is decimal text of at most 256 bits. */
const pricePattern = /^[0-9]{1,78}$/;

/** What to read, and until when. */
export interface DepthReaderOptions extends StreamOptions {
  /** None: every market, those announced later included. */
  readonly marketIds?: readonly string[];
  /**
   * Called and awaited when a stream has sent its first message, before its first change: on the first connection and on
   * each further one. An error is treated as the stream's.
   */
  readonly onConnect?: () => void | Promise<void>;
  /**
   * Called when a market's state or decimals are others, before the change of its book. The book of a market that is
   * `STALE` is unknown until it is `WHOLE` again. An error is treated as the stream's.
   */
  readonly onStatus?: (status: MarketHistoryStatus) => void;
}

/** Which part of the past to read, and how fast. */
export interface ReplayOptions extends DepthReaderOptions {
  /** Start with the books as of this time. Absent: with the oldest that are kept. */
  readonly from?: Time;
  /** End before the first block that is not earlier than this time. Absent: go on with the live stream, without end. */
  readonly until?: Time;
  /** Seconds of the past in a second, 0.01 to 1000; 1: as it happened. Absent: as fast as you read. */
  readonly speed?: number;
  /** A change for each block, however slowly you read. Needs `until`. */
  readonly everyUpdate?: boolean;
}

/** A book that has changed, and the update that changed it. */
export interface DepthChange {
  /** After the update. The same object is changed again by the next update; a whole book is another object. */
  readonly book: DepthBook;
  readonly update: MarketDepthUpdate;
  /** The block that the book is of, with its time. Undefined from a server without MarketHistoryService. */
  readonly block: BlockPlace | undefined;
  /** How the book's numbers are scaled, for `scaledPrice` and `scaledSize`. Undefined likewise. */
  readonly scale: MarketHistoryStatus | undefined;
  /** False while a replay is in the past. */
  readonly isLive: boolean;
}

/**
 * Order books as they change, for as long as the caller reads: first every market's whole book, then each change. When
 * the stream breaks it is opened again, after a wait, and goes on with what changed meanwhile. Only where the server
 * cannot tell that, it starts with whole books again. Read as slowly as you like: the server merges what you have not
 * read yet.
 * @throws ConnectError when trying again is of no use, such as NOT_FOUND for an unknown market
 */
export function readDepth(client: MarketdClient, options: DepthReaderOptions = {}): AsyncGenerator<DepthChange, void> {
  return new DepthReader(client, options, undefined).read();
}

/**
 * The same of a time in the past on, so that the code that reads it is the same. With `until` it ends there; without, it
 * becomes live, and no change is missing or doubled between.
 * @throws ConnectError as {@link readDepth}, FAILED_PRECONDITION or OUT_OF_RANGE if that time is not kept
 */
export function replay(client: MarketdClient, options: ReplayOptions = {}): AsyncGenerator<DepthChange, void> {
  const { from, until, speed, everyUpdate } = options;
  return new DepthReader(client, options, {
    ...(from !== undefined && { fromTimestamp: nanosecondsOf(from) }),
    ...(until !== undefined && { untilTimestamp: nanosecondsOf(until) }),
    ...(speed !== undefined && { speed: String(speed) }),
    ...(everyUpdate !== undefined && { everyUpdate }),
  }).read();
}

type ReplayRequest = MessageInitShape<typeof ReplayMarketsDepthRequestSchema>;

/** What a stream said of one block or of several that were merged. */
interface Message {
  readonly update: readonly MarketDepthUpdate[];
  readonly status: readonly MarketHistoryStatus[];
  readonly block: BlockPlace | undefined;
  readonly caughtUp: boolean;
  /** Empty: the stream has none. */
  readonly resumeToken: string;
}

/** Books over any number of connections. */
class DepthReader {
  readonly #client: MarketdClient;
  readonly #options: DepthReaderOptions;
  /** Which past to read; undefined: none. */
  readonly #past: ReplayRequest | undefined;
  #isLive: boolean;
  /** Of the last message whose changes are in the books; empty: there is none. */
  #token = "";
  /** A server had what is asked for. */
  #isFound = false;
  readonly #books = new Map<string, DepthBook>();
  readonly #scales = new Map<string, MarketHistoryStatus>();

  constructor(client: MarketdClient, options: DepthReaderOptions, past: ReplayRequest | undefined) {
    this.#client = client;
    this.#options = options;
    this.#past = past;
    this.#isLive = past === undefined;
  }

  read(): AsyncGenerator<DepthChange, void> {
    return withRetries(
      () => this.#readOnce(),
      (error) => this.#goesOnAfter(error),
      this.#options,
    );
  }

  async *#readOnce(): AsyncGenerator<readonly DepthChange[], void> {
    for await (const message of this.#messages()) yield this.#changes(message);
  }

  /** Whether another connection can be of use. The live stream begins with whole books where it cannot go on. */
  #goesOnAfter(error: ConnectError): boolean {
    // Another server had this time before.
    if (error.code === Code.OutOfRange && this.#isFound && !this.#isLive) return true;
    const isDamaged = error.code === Code.DataLoss;
    if (isTransient(error) && !(isDamaged && !this.#isLive)) {
      if (isDamaged) this.#token = "";
      return true;
    }
    const isRefusedToken = error.code === Code.FailedPrecondition || error.code === Code.InvalidArgument;
    if (!(this.#isLive && this.#token !== "" && isRefusedToken)) return false;
    this.#token = "";
    return true;
  }

  #request(): ReplayRequest {
    const marketIds = [...(this.#options.marketIds ?? [])];
    if (this.#isLive) return { marketIds, resumeToken: this.#token || newest };
    if (this.#token === "") return { ...this.#past, marketIds };
    const { fromTimestamp: _, ...rest } = this.#past ?? {};
    return { ...rest, marketIds, resumeToken: this.#token };
  }

  /** The messages of one stream. It ends as the server ends a replay. @throws ConnectError when it ends otherwise */
  async *#messages(): AsyncGenerator<Message, void> {
    if (this.#token === "") {
      this.#books.clear();
      this.#scales.clear();
    }
    try {
      yield* this.#messagesOf((signal) => wholeMessages(this.#client.replayMarketsDepth(this.#request(), { signal })));
    } catch (thrown) {
      if (!(this.#isLive && ConnectError.from(thrown).code === Code.Unimplemented)) throw thrown;
      // An older server: every connection begins with whole books.
      this.#token = "";
      const request = { marketIds: [...(this.#options.marketIds ?? [])] };
      yield* this.#messagesOf((signal) => plainMessages(this.#client.observeMarketsDepthUpdates(request, { signal })));
    }
    if (this.#isLive || this.#past?.untilTimestamp === undefined) {
      throw streamEnded();
    }
  }

  async *#messagesOf(open: (signal: AbortSignal) => AsyncIterable<Message | undefined>): AsyncGenerator<Message, void> {
    let first = true;
    for await (const message of watched(open, this.#options)) {
      this.#isFound = true;
      if (message === undefined) continue;
      if (first) await this.#options.onConnect?.();
      first = false;
      yield message;
    }
  }

  /** Applies a whole message. @throws ConnectError DATA_LOSS if it does not fit */
  #changes({ update, status, block, caughtUp, resumeToken }: Message): DepthChange[] {
    for (const one of status) {
      this.#scales.set(one.marketId, one);
      if (one.state === MarketHistoryState.STALE) this.#books.delete(one.marketId);
      this.#options.onStatus?.(one);
    }
    const books = update.map((one) => this.#apply(one));
    this.#isLive ||= caughtUp;
    this.#token = resumeToken;
    const isLive = this.#isLive;
    return books.map((book, index) => {
      return {
        book,
        update: update[index] as MarketDepthUpdate,
        block,
        scale: this.#scales.get(book.marketId),
        isLive,
      };
    });
  }

  #apply(update: MarketDepthUpdate): DepthBook {
    const { marketId, previousSequenceNumber } = update;
    const held = previousSequenceNumber === 0n ? undefined : this.#books.get(marketId);
    const book = held ?? new DepthBook(marketId);
    this.#books.set(marketId, book);
    for (const side of [update.buy, update.sell]) checkPrices(marketId, side);
    if (book.apply(update) === "gap") {
      throw new ConnectError(`updates of market ${marketId} are missing`, Code.DataLoss);
    }
    return book;
  }
}

/** Messages put together from their parts: what has no block goes on in the next. Undefined: a part that is kept. */
async function* wholeMessages(parts: AsyncIterable<ReplayMarketsDepthResponse>): AsyncGenerator<Message | undefined> {
  let update: MarketDepthUpdate[] = [];
  let status: MarketHistoryStatus[] = [];
  let caughtUp = false;
  for await (const part of parts) {
    update = update.concat(part.update);
    status = status.concat(part.status);
    caughtUp ||= part.caughtUp;
    if (part.block === undefined) yield undefined;
    else {
      yield { update, status, caughtUp, block: part.block, resumeToken: part.resumeToken };
      [update, status, caughtUp] = [[], [], false];
    }
  }
}

async function* plainMessages(
  messages: AsyncIterable<{ readonly update: readonly MarketDepthUpdate[] }>,
): AsyncGenerator<Message> {
  for await (const { update } of messages) {
    yield { update, status: [], block: undefined, caughtUp: false, resumeToken: "" };
  }
}

/** @throws ConnectError DATA_LOSS unless each price is an integer of at most 256 bits */
export function checkPrices(marketId: string, levels: readonly DepthLevel[]): void {
  for (const { price } of levels) {
    if (pricePattern.test(price)) continue;
    throw new ConnectError(`market ${quoted(marketId)} has the price ${quoted(price)}`, Code.DataLoss);
  }
}
