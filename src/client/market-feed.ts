import { setTimeout as sleep } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import { type DepthChange, readDepth } from "../../clients/typescript/src/depth-reader.js";
import { isTransient } from "../../clients/typescript/src/retry.js";
import type { GetMarketResponse } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { type Market, Market_TradingMode } from "../../gen/vega/markets_pb.js";
import type { BlockHead } from "../domain/block-headers.js";
import { DepthBook } from "../domain/depth-book.js";
import { OperatorError } from "../domain/operator-error.js";
import { reasonOf, type Server } from "./server.js";

/** Interval of requests for what the depth stream does not contain: mode, newest block, market. */
const factsIntervalMs = 1_000;

/** Such a request may take this long; then the server counts as stale. */
const factsMaxMs = 5_000;

/** The maximum number of markets in a message. */
const namedMax = 5;

/** Why the displayed data is out of date. */
export interface Staleness {
  /** When the server last responded, by `performance.now()`. */
  readonly since: number;
  readonly reason: string;
}

/**
 * The market with this id, or with this unique prefix of its id.
 * @throws OperatorError if there is none, or several; ConnectError
 */
export async function findMarket({ url, client }: Server, id: string): Promise<Market> {
  try {
    return marketOf(await client.getMarket({ marketId: id }, { timeoutMs: factsMaxMs }));
  } catch (thrown) {
    if (ConnectError.from(thrown).code !== Code.NotFound) throw thrown;
  }
  const { marketsData } = await client.listLatestMarketData({}, { timeoutMs: factsMaxMs });
  const found = marketsData.map(({ market }) => market).filter((market) => market.startsWith(id));
  const [only] = found;
  if (only !== undefined && found.length === 1) {
    return marketOf(await client.getMarket({ marketId: only }, { timeoutMs: factsMaxMs }));
  }
  const several = `${found.length} markets begin with ${id}: ${namesOf(found)}`;
  const none = `${url} has no market ${id}; it has ${namesOf(marketsData.map(({ market }) => market))}`;
  throw new OperatorError(found.length > 1 ? several : none);
}

function namesOf(ids: readonly string[]): string {
  const more = ids.length - namedMax;
  if (ids.length === 0) return "none with market data";
  return ids.slice(0, namedMax).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function marketOf({ market }: GetMarketResponse): Market {
  if (market === undefined) throw new ConnectError("the response has no market", Code.Internal);
  return market;
}

/** A market that is being followed: its book comes from the depth stream, everything else from requests. */
export class MarketFeed {
  readonly #server: Server;
  readonly #id: string;
  #market: Market;
  #mode: Market_TradingMode | undefined;
  #block: BlockHead | undefined;
  #book: DepthBook | undefined;
  #heardAt = performance.now();
  #streamFailure: string | undefined;
  #factsFailure: string | undefined;
  /** Ends the current stream, or the wait for the next. */
  #stream = new AbortController();

  constructor(server: Server, market: Market) {
    this.#server = server;
    this.#id = market.id;
    this.#market = market;
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

  /** Undefined while everything is up to date. */
  get staleness(): Staleness | undefined {
    const reason = this.#streamFailure ?? this.#factsFailure;
    return reason === undefined ? undefined : { since: this.#heardAt, reason };
  }

  /** Every change of the book until `signal`, over any number of connections. @throws ConnectError */
  async *changes(signal: AbortSignal, onStale: () => void = () => {}): AsyncGenerator<DepthChange, void> {
    const onDisconnect = (error: ConnectError) => {
      const isFirst = this.#streamFailure === undefined;
      this.#streamFailure = reasonOf(error);
      if (isFirst) onStale();
    };
    while (!signal.aborted) {
      this.#stream = new AbortController();
      const ended = AbortSignal.any([signal, this.#stream.signal]);
      // Its decimals may have changed while there was no stream.
      const onConnect = () => this.#askMarket(ended);
      const options = { marketIds: [this.#id], signal: ended, onConnect, onDisconnect };
      for await (const change of readDepth(this.#server.client, options)) {
        this.#streamFailure = undefined;
        this.#heardAt = performance.now();
        this.#book = change.book;
        yield change;
      }
    }
  }

  /** Requests everything once, without the stream. `maxDepth` 0: all levels. @throws ConnectError */
  async ask(maxDepth: number, signal: AbortSignal): Promise<void> {
    await this.#askFacts(signal);
    const onHeader = (headers: Headers) => this.#noteBlock(headers);
    const request = { marketId: this.#id, maxDepth: BigInt(maxDepth) };
    const depth = await this.#server.client.getLatestMarketDepth(request, { signal, timeoutMs: factsMaxMs, onHeader });
    this.#book = DepthBook.fromDepth(depth);
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
    const options = { signal, timeoutMs: factsMaxMs };
    await this.#askMarket(signal);
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

  /** Requests the market. A book in other decimals is discarded. */
  async #askMarket(signal: AbortSignal): Promise<void> {
    const options = { signal, timeoutMs: factsMaxMs };
    const market = marketOf(await this.#server.client.getMarket({ marketId: this.#id }, options));
    const { decimalPlaces, positionDecimalPlaces } = this.#market;
    const isSame = market.decimalPlaces === decimalPlaces && market.positionDecimalPlaces === positionDecimalPlaces;
    if (!isSame) this.#book = undefined;
    this.#market = market;
  }

  #noteBlock(headers: Headers): void {
    const height = headers.get("x-block-height");
    const timeNs = headers.get("x-block-timestamp");
    if (height !== null && timeNs !== null) this.#block = { height: BigInt(height), timeNs: BigInt(timeNs) };
  }

  #heardAgain(): void {
    if (this.#streamFailure === undefined) this.#heardAt = performance.now();
    // The server responds again, so waiting longer is not necessary.
    else if (this.#factsFailure !== undefined) this.#stream.abort();
    this.#factsFailure = undefined;
  }
}
