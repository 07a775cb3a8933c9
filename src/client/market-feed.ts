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

/** How often what the depth stream does not tell is asked for: mode, newest block, the market itself. */
const factsIntervalMs = 1_000;

/** A server that leaves such a request open for so long is stale. */
const factsMaxMs = 5_000;

/** Markets that a message names, at most. */
const namedMax = 5;

/** Why what is shown is out of date. */
export interface Staleness {
  /** When the server was last heard, by `performance.now()`. */
  readonly since: number;
  readonly reason: string;
}

/**
 * The market with an id, or whose id alone begins with it.
 * @throws OperatorError when there is none, or several; ConnectError
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

/** A market as it is now, for as long as it is followed: its book from the depth stream, all else by asking. */
export class MarketFeed {
  readonly #server: Server;
  readonly #id: string;
  #market: Market;
  #mode: Market_TradingMode;
  #block: BlockHead | undefined;
  #book: DepthBook | undefined;
  #heardAt = performance.now();
  #streamFailure: string | undefined;
  #factsFailure: string | undefined;
  /** Ends the stream that is read, or the wait for the next. */
  #stream = new AbortController();

  constructor(server: Server, market: Market) {
    this.#server = server;
    this.#id = market.id;
    this.#market = market;
    this.#mode = market.tradingMode;
  }

  get market(): Market {
    return this.#market;
  }

  /** How it trades, for people: `monitoring auction`. */
  get mode(): string {
    return (Market_TradingMode[this.#mode] ?? String(this.#mode)).toLowerCase().replaceAll("_", " ");
  }

  /** The newest block of the server when it was last asked. */
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

  /** Every change of the book until `signal`, over as many connections as that takes. @throws ConnectError */
  async *changes(signal: AbortSignal, onStale: () => void = () => {}): AsyncGenerator<DepthChange, void> {
    const onDisconnect = (error: ConnectError) => {
      const isFirst = this.#streamFailure === undefined;
      this.#streamFailure = reasonOf(error);
      if (isFirst) onStale();
    };
    while (!signal.aborted) {
      this.#stream = new AbortController();
      const options = { marketIds: [this.#id], signal: AbortSignal.any([signal, this.#stream.signal]), onDisconnect };
      for await (const change of readDepth(this.#server.client, options)) {
        this.#streamFailure = undefined;
        this.#heardAt = performance.now();
        this.#book = change.book;
        yield change;
      }
    }
  }

  /** Asks once for all of it, without the stream. `maxDepth` 0: all levels. @throws ConnectError */
  async ask(maxDepth: number, signal: AbortSignal): Promise<void> {
    await this.#askFacts(signal);
    const onHeader = (headers: Headers) => this.#noteBlock(headers);
    const request = { marketId: this.#id, maxDepth: BigInt(maxDepth) };
    const depth = await this.#server.client.getLatestMarketDepth(request, { signal, timeoutMs: factsMaxMs, onHeader });
    this.#book = DepthBook.fromDepth(depth);
  }

  /** Asks for what the stream does not tell, until `signal`. @throws ConnectError when asking again is of no use */
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
    this.#market = marketOf(await client.getMarket({ marketId: this.#id }, options));
    const onHeader = (headers: Headers) => this.#noteBlock(headers);
    try {
      const { marketData } = await client.getLatestMarketData({ marketId: this.#id }, { ...options, onHeader });
      this.#mode = marketData?.marketTradingMode ?? this.#market.tradingMode;
    } catch (thrown) {
      const error = ConnectError.from(thrown);
      // A market that has no data yet.
      if (error.code !== Code.NotFound) throw error;
      this.#noteBlock(error.metadata);
      this.#mode = this.#market.tradingMode;
    }
  }

  #noteBlock(headers: Headers): void {
    const height = headers.get("x-block-height");
    const timeNs = headers.get("x-block-timestamp");
    if (height !== null && timeNs !== null) this.#block = { height: BigInt(height), timeNs: BigInt(timeNs) };
  }

  #heardAgain(): void {
    if (this.#streamFailure === undefined) this.#heardAt = performance.now();
    // A server that answers again need not be waited for any longer.
    else if (this.#factsFailure !== undefined) this.#stream.abort();
    this.#factsFailure = undefined;
  }
}
