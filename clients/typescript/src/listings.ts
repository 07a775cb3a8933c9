import type { Candle } from "../../../gen/datanode/api/v2/trading_data_pb.js";
import type { Asset } from "../../../gen/vega/assets_pb.js";
import type { Market } from "../../../gen/vega/markets_pb.js";
import type { MarketdClient } from "./client.js";
import { type ListOptions, nodes } from "./pages.js";
import { nanosecondsOf, type Time } from "./time.js";

/** Which markets, and how they are read. */
export interface MarketsOptions extends ListOptions {
  /** False: without settled and closed ones. Default: true. */
  readonly includeSettled?: boolean;
}

/** The period of a candle; `block`: a candle for each block. */
export type CandleInterval = "block" | "1 minute" | "5 minutes" | "15 minutes" | "1 hour" | "6 hours" | "1 day";

/** Every market that the network announced, by id, a page at a time. @throws ConnectError when a page cannot be read */
export function markets(client: MarketdClient, options: MarketsOptions = {}): AsyncGenerator<Market, void> {
  const { includeSettled, pageSize, signal } = options;
  const first = pageSize === undefined ? {} : { first: pageSize };
  const request = includeSettled === undefined ? {} : { includeSettled };
  return nodes(async (after) => {
    const pagination = { ...first, ...after };
    return (await client.listMarkets({ ...request, pagination }, signal && { signal })).markets;
  });
}

/** Every asset that the network announced, by id, a page at a time. @throws ConnectError when a page cannot be read */
export function assets(client: MarketdClient, { pageSize, signal }: ListOptions = {}): AsyncGenerator<Asset, void> {
  const first = pageSize === undefined ? {} : { first: pageSize };
  return nodes(async (after) => {
    return (await client.listAssets({ pagination: { ...first, ...after } }, signal && { signal })).assets;
  });
}

/**
 * A market's candles whose periods begin from a time on and before another, oldest first, a page at a time. The running
 * one is included; periods without trades have none. `scaledPrice` and `scaledSize` scale their numbers.
 * @param from absent: from the first candle that is kept
 * @param until absent: up to the running candle
 * @throws ConnectError when a page cannot be read: go on from the `start` of the last candle, whose period may not have
 *   ended. NOT_FOUND for an unknown market, FAILED_PRECONDITION with the reason TRADES_NOT_RETAINED if `from` is before
 *   what is kept
 */
export function candles(
  client: MarketdClient,
  marketId: string,
  interval: CandleInterval,
  from?: Time,
  until?: Time,
  { pageSize, signal }: ListOptions = {},
): AsyncGenerator<Candle, void> {
  const request = {
    candleId: `trades_candle_${interval.replaceAll(" ", "_")}_${marketId}`,
    ...(from !== undefined && { fromTimestamp: nanosecondsOf(from) }),
    ...(until !== undefined && { toTimestamp: nanosecondsOf(until) }),
  };
  const order = { newestFirst: false, ...(pageSize !== undefined && { first: pageSize }) };
  return nodes(async (after) => {
    const pagination = { ...order, ...after };
    return (await client.listCandleData({ ...request, pagination }, signal && { signal })).candles;
  });
}
