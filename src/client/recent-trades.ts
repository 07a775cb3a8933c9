import { type CallOptions, Code, ConnectError } from "@connectrpc/connect";
import { decimalsOf, type Scale } from "../../clients/typescript/src/decimals.js";
import { checkPrices } from "../../clients/typescript/src/depth-reader.js";
import { nodesOf } from "../../clients/typescript/src/pages.js";
import { isTransient } from "../../clients/typescript/src/retry.js";
import { streamEnded, watched, withRetries } from "../../clients/typescript/src/stream.js";
import type { Trade } from "../../gen/vega/vega_pb.js";
import { blockHeadOf } from "../domain/block-headers.js";
import { positionBits } from "../domain/block-position.js";
import { numberCursors } from "../domain/cursor.js";
import { type Server, shortResponseMaxMs } from "./server.js";

/** The newest trades that are held, and that are listed before a stream begins. */
export const recentTradesMax = 100;

const { decode } = numberCursors("trades");

/** The newest trades of a market, as long as {@link follow} runs. All have the market's decimals of now. */
export class RecentTrades {
  #trades: readonly Trade[] | undefined;
  /** Ends the current stream. */
  #stream = new AbortController();

  constructor(
    private readonly server: Server,
    private readonly marketId: string,
  ) {}

  /** Newest first. Undefined: the server has not told, or tells no trades. */
  get newest(): readonly Trade[] | undefined {
    return this.#trades;
  }

  /** The market has other decimals from now on: trades are read again. */
  redefined(): void {
    this.#trades = undefined;
    this.#stream.abort();
  }

  /** Follows the trades until `signal`, over any number of connections, or until the server says that it tells none. */
  async follow(scaleNow: () => Scale, signal: AbortSignal): Promise<void> {
    // What a stream has no more, a list may not need.
    const isBehind = ({ code }: ConnectError) => code === Code.FailedPrecondition && this.#trades !== undefined;
    while (!signal.aborted) {
      this.#stream = new AbortController();
      const options = { signal: AbortSignal.any([signal, this.#stream.signal]) };
      const messages = withRetries(
        () => this.#read(scaleNow, options.signal),
        (error) => isTransient(error) || isBehind(error),
        options,
      );
      try {
        // It yields nothing: what it reads is in the newest trades.
        await messages.next();
      } catch {
        this.#trades = undefined;
        return;
      }
    }
  }

  /** Reads one stream, and what was before it. Yields an empty batch for each message. */
  async *#read(scaleNow: () => Scale, signal: AbortSignal): AsyncGenerator<readonly Trade[]> {
    let startHeight = 0n;
    const onHeader = (headers: Headers) => {
      startHeight = blockHeadOf(headers.get("x-block-height"), headers.get("x-block-timestamp"))?.height ?? 0n;
    };
    const open = (ended: AbortSignal) =>
      this.server.client.observeTrades({ marketIds: [this.marketId] }, { signal: ended, onHeader });
    let isFirst = true;
    for await (const { trades } of watched(open, { signal })) {
      if (isFirst) this.#trades = await this.#list(startHeight, scaleNow(), signal);
      isFirst = false;
      checkPrices(this.marketId, trades.map(levelOf));
      this.#trades = [...trades.toReversed(), ...(this.#trades ?? [])].slice(0, recentTradesMax);
      yield [];
    }
    throw streamEnded();
  }

  /** The newest trades up to a block, of those that are known to have the decimals of now. */
  async #list(height: bigint, scale: Scale, signal: AbortSignal): Promise<readonly Trade[]> {
    const { client } = this.server;
    const marketId = this.marketId;
    const options = { signal, timeoutMs: shortResponseMaxMs };
    const page = await client.listTrades({ marketIds: [marketId], pagination: { first: recentTradesMax } }, options);
    // Later blocks, which may have the same time, are streamed.
    const listed = (page.trades?.edges ?? []).filter(
      ({ cursor }) => decode("cursor", cursor) >> positionBits <= height,
    );
    const trades = nodesOf(listed);
    checkPrices(marketId, trades.map(levelOf));
    // The oldest one first: decimals seldom change.
    let ofNow = 0;
    for (let [end, at] = [trades.length, trades.length - 1]; ofNow < end; at = (ofNow + end) >> 1) {
      if (await this.#hasScale(trades[at]?.timestamp ?? 0n, scale, options)) ofNow = at + 1;
      else end = at;
    }
    return trades.slice(0, ofNow);
  }

  /** Whether the market is known to have had these decimals at a time. */
  async #hasScale(timestamp: bigint, scale: Scale, options: CallOptions): Promise<boolean> {
    try {
      const before = await this.server.client.getMarketDepthAt(
        { marketId: this.marketId, timestamp, maxDepth: 1n },
        options,
      );
      const [then, now] = [decimalsOf(before), decimalsOf(scale)];
      return then.price === now.price && then.size === now.size;
    } catch (thrown) {
      const error = ConnectError.from(thrown);
      if (isTransient(error)) throw error;
      // That time is not kept.
      return false;
    }
  }
}

function levelOf({ price, size }: Trade) {
  return { price, volume: size, numberOfOrders: 1n };
}
