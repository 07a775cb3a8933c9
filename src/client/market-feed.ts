import { setTimeout as sleep } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import { decimalsOf, type Scale } from "../../clients/typescript/src/decimals.js";
import { checkPrices, type DepthChange, readDepth, replay } from "../../clients/typescript/src/depth-reader.js";
import { bookAt } from "../../clients/typescript/src/past-book.js";
import { isTransient } from "../../clients/typescript/src/retry.js";
import {
  type BlockPlace,
  MarketHistoryState,
  type MarketHistoryStatus,
} from "../../gen/marketd/history/v1/market_history_pb.js";
import { type Market, Market_TradingMode } from "../../gen/vega/markets_pb.js";
import type { Trade } from "../../gen/vega/vega_pb.js";
import { type BlockHead, blockHeadOf } from "../domain/block-headers.js";
import { DepthBook } from "../domain/depth-book.js";
import { RecentTrades } from "./recent-trades.js";
import { marketOf, reasonOf, type Server, shortResponseMaxMs } from "./server.js";

/** Interval of requests for what the depth stream does not contain: mode, newest block, market. */
const factsIntervalMs = 1_000;

/** A market whose decimals change more often than this while it is read is given up. */
const decimalsTriesMax = 3;

/** Why the displayed data is out of date. */
export interface Staleness {
  /** When the server last responded, by `performance.now()`. */
  readonly since: number;
  readonly reason: string;
}

/** Which past to show, and how fast. */
export interface Past {
  /** Undefined: from the oldest that is kept. */
  readonly from: bigint | undefined;
  readonly speed: number;
}

/** A market that is being followed: its book comes from the depth stream, everything else from requests. */
export class MarketFeed {
  readonly #server: Server;
  readonly #id: string;
  readonly #trades: RecentTrades;
  #market: Market;
  #mode: Market_TradingMode | undefined;
  #block: BlockHead | undefined;
  #book: DepthBook | undefined;
  #heardAt = performance.now();
  #streamFailure: string | undefined;
  /** Why the stream has no book of the market. */
  #bookFailure: string | undefined;
  #factsFailure: string | undefined;
  /** Ends the current stream, or the wait for the next. */
  #stream = new AbortController();

  constructor(server: Server, market: Market) {
    this.#server = server;
    this.#id = market.id;
    this.#market = market;
    this.#trades = new RecentTrades(server, market.id);
  }

  get market(): Market {
    return this.#market;
  }

  /** The trading mode as text: `monitoring auction`. Undefined until it was requested. */
  get mode(): string | undefined {
    if (this.#mode === undefined) return undefined;
    return (Market_TradingMode[this.#mode] ?? String(this.#mode)).toLowerCase().replaceAll("_", " ");
  }

  /** The server's newest block at the last request. */
  get block(): BlockHead | undefined {
    return this.#block;
  }

  /** Undefined until the stream has sent it. */
  get book(): DepthBook | undefined {
    return this.#book;
  }

  /** Newest first; undefined while they are not followed, or where the server tells none. */
  get trades(): readonly Trade[] | undefined {
    return this.#trades.newest;
  }

  /** Undefined while everything is up to date. */
  get staleness(): Staleness | undefined {
    const reason = this.#streamFailure ?? this.#bookFailure ?? this.#factsFailure;
    return reason === undefined ? undefined : { since: this.#heardAt, reason };
  }

  /** Every change of the book until `signal`, over any number of connections. @throws ConnectError */
  async *changes(signal: AbortSignal, onStale: () => void = () => {}): AsyncGenerator<DepthChange, void> {
    const onDisconnect = this.#noteDisconnect(onStale);
    while (!signal.aborted) {
      this.#stream = new AbortController();
      const ended = AbortSignal.any([signal, this.#stream.signal]);
      // Decimals that are the same before and after the first message are those of its book.
      const onConnect = async () => {
        if (await this.#askMarket(ended)) throw otherDecimals();
        this.#noteConnected();
      };
      const options = { marketIds: [this.#id], signal: ended, onConnect, onDisconnect };
      yield* this.#shown(readDepth(this.#server.client, { ...options, onStatus: this.#noteStatus(onStale) }));
    }
  }

  /** The same of a past, which becomes the present where `speed` is above 1. Blocks come with it. @throws ConnectError */
  async *replayed({ from, speed }: Past, signal: AbortSignal, onStale = () => {}): AsyncGenerator<DepthChange, void> {
    const span = { ...(from !== undefined && { from }), speed };
    const onConnect = () => this.#noteConnected();
    const calls = { onConnect, onDisconnect: this.#noteDisconnect(onStale), onStatus: this.#noteStatus(onStale) };
    const options = { marketIds: [this.#id], signal, ...span, ...calls };
    yield* this.#shown(replay(this.#server.client, options), (place) => this.#notePlace(place));
  }

  async *#shown(
    changes: AsyncIterable<DepthChange>,
    onPlace: (place: BlockPlace) => void = () => {},
  ): AsyncGenerator<DepthChange, void> {
    for await (const change of changes) {
      this.#noteConnected();
      this.#book = change.book;
      if (change.block !== undefined) onPlace(change.block);
      yield change;
    }
  }

  #noteConnected(): void {
    this.#streamFailure = undefined;
    this.#heardAt = performance.now();
  }

  /** `onStale`: of several attempts in a row, the first one failed. */
  #noteDisconnect(onStale: () => void): (error: ConnectError) => void {
    return (error) => {
      const isFirst = this.#streamFailure === undefined;
      this.#streamFailure = reasonOf(error);
      if (isFirst) onStale();
    };
  }

  /** Takes the decimals of a stream's books, which may be others than the market's newest. */
  #noteStatus(onStale: () => void): (status: MarketHistoryStatus) => void {
    return (status) => {
      this.#scaleAs(status);
      const isStale = status.state === MarketHistoryState.STALE;
      const isNew = isStale && this.#bookFailure === undefined;
      this.#bookFailure = isStale ? "updates of the market's venue were wrong or missing" : undefined;
      if (isNew) onStale();
    };
  }

  /** Follows the trades until `signal`, or until the server says that it tells none. */
  followTrades(signal: AbortSignal): Promise<void> {
    return this.#trades.follow(() => this.#market, signal);
  }

  #scaleAs({ decimalPlaces, positionDecimalPlaces }: Scale): void {
    if (!this.#isScaledAs({ decimalPlaces, positionDecimalPlaces })) this.#trades.redefined();
    this.#market = { ...this.#market, decimalPlaces, positionDecimalPlaces };
  }

  #notePlace({ height, timestamp }: BlockPlace): void {
    this.#block = { height, timeNs: timestamp };
  }

  /** Requests the book as it was at a time. @throws ConnectError */
  async askAt(time: bigint, signal: AbortSignal): Promise<void> {
    const { book, block, scale } = await bookAt(this.#server.client, this.#id, time, {
      signal,
      timeoutMs: shortResponseMaxMs,
    });
    decimalsOf(scale);
    this.#scaleAs(scale);
    this.#book = book;
    if (block !== undefined) this.#notePlace(block);
  }

  /** Requests everything once, without the stream. `maxDepth` 0: all levels. @throws ConnectError */
  async ask(maxDepth: number, signal: AbortSignal): Promise<void> {
    const onHeader = (headers: Headers) => this.#noteBlock(headers);
    const request = { marketId: this.#id, maxDepth: BigInt(maxDepth) };
    const options = { signal, timeoutMs: shortResponseMaxMs, onHeader };
    for (let n = 0; n < decimalsTriesMax; n++) {
      await this.#askFacts(signal);
      const depth = await this.#server.client.getLatestMarketDepth(request, options);
      for (const side of [depth.buy, depth.sell]) checkPrices(this.#id, side);
      this.#book = DepthBook.fromDepth(depth);
      if (!(await this.#askMarket(signal))) return;
    }
    throw otherDecimals();
  }

  /** Requests what the stream does not contain, until `signal`. @throws ConnectError if a retry cannot succeed */
  async pollFacts(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#askFacts(signal);
        this.#heardAgain();
      } catch (thrown) {
        if (signal.aborted) return;
        const error = ConnectError.from(thrown);
        if (!isTransient(error)) throw error;
        this.#factsFailure = reasonOf(error);
      }
      await sleep(factsIntervalMs, undefined, { signal }).catch(() => {});
    }
  }

  async #askFacts(signal: AbortSignal): Promise<void> {
    const { client } = this.#server;
    const options = { signal, timeoutMs: shortResponseMaxMs };
    if (await this.#askMarket(signal)) this.#stream.abort();
    const onHeader = (headers: Headers) => this.#noteBlock(headers);
    try {
      const { marketData } = await client.getLatestMarketData({ marketId: this.#id }, { ...options, onHeader });
      this.#mode = marketData?.marketTradingMode ?? this.#market.tradingMode;
    } catch (thrown) {
      const error = ConnectError.from(thrown);
      // The market has no data yet.
      if (error.code !== Code.NotFound) throw error;
      this.#noteBlock(error.metadata);
      this.#mode = this.#market.tradingMode;
    }
  }

  /** Requests the market, and returns whether its decimals changed. A book in other decimals is discarded. */
  async #askMarket(signal: AbortSignal): Promise<boolean> {
    const options = { signal, timeoutMs: shortResponseMaxMs };
    const market = marketOf(await this.#server.client.getMarket({ marketId: this.#id }, options));
    const isSame = this.#isScaledAs(market);
    this.#market = market;
    if (isSame) return false;
    this.#book = undefined;
    this.#trades.redefined();
    return true;
  }

  #isScaledAs({ decimalPlaces, positionDecimalPlaces }: Scale): boolean {
    const { decimalPlaces: price, positionDecimalPlaces: size } = this.#market;
    return decimalPlaces === price && positionDecimalPlaces === size;
  }

  #noteBlock(headers: Headers): void {
    this.#block = blockHeadOf(headers.get("x-block-height"), headers.get("x-block-timestamp")) ?? this.#block;
  }

  #heardAgain(): void {
    if (this.#streamFailure === undefined) this.#heardAt = performance.now();
    // The server responds again, so waiting longer is not necessary.
    else if (this.#factsFailure !== undefined) this.#stream.abort();
    this.#factsFailure = undefined;
  }
}

function otherDecimals(): ConnectError {
  return new ConnectError("the market has other decimals than before", Code.Unavailable);
}
