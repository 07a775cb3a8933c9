import type { CallOptions } from "@connectrpc/connect";
import type { BlockPlace, GetMarketDepthAtResponse } from "../../../gen/marketd/history/v1/market_history_pb.js";
import type { Trade } from "../../../gen/vega/vega_pb.js";
import { DepthBook } from "../../../src/domain/depth-book.js";
import type { MarketdClient } from "./client.js";
import { checkPrices } from "./depth-reader.js";
import { nanosecondsOf, type Time } from "./time.js";

/** A market's order book at a time, and what belongs to it. */
export interface PastBook {
  readonly book: DepthBook;
  /** The newest block that is not later than the time: the book is of its end. */
  readonly block: BlockPlace | undefined;
  /** The last one up to the block. */
  readonly lastTrade: Trade | undefined;
  /** How the numbers of that time are scaled, for `scaledPrice` and `scaledSize`. */
  readonly scale: GetMarketDepthAtResponse;
}

/**
 * A market's order book as it was at a time. For a block's height or stream sequence number call
 * `client.getMarketDepthAt`.
 * @throws ConnectError FAILED_PRECONDITION or OUT_OF_RANGE if that time is not kept, and the nearest that is
 */
export async function bookAt(
  client: MarketdClient,
  marketId: string,
  time: Time,
  options?: CallOptions,
): Promise<PastBook> {
  const scale = await client.getMarketDepthAt({ marketId, timestamp: nanosecondsOf(time) }, options);
  for (const side of [scale.buy, scale.sell]) checkPrices(marketId, side);
  return { book: DepthBook.fromDepth(scale), block: scale.block, lastTrade: scale.lastTrade, scale };
}
