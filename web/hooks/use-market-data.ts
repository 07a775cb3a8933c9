import { useRef } from "preact/hooks";
import { getMarketData, type MarketDataResponse, ServiceError } from "../service/service.js";
import { type Polled, usePoll } from "./use-poll.js";

const pollMs = 1_000;

/**
 * A market's data, again and again. A market without data, as most of venues are, is asked for again once more markets
 * have some. `marketsWithData` as the status says; undefined: it is not known yet.
 */
export function useMarketData(
  marketId: string,
  marketsWithData: number | undefined,
): Polled<MarketDataResponse | undefined> {
  const without = useRef<{ marketId: string; marketsWithData: number }>({ marketId, marketsWithData: 0 });
  const request = async () => {
    const { current } = without;
    if (marketsWithData === undefined) return undefined;
    if (current.marketsWithData === marketsWithData && current.marketId === marketId) return undefined;
    try {
      return await getMarketData(marketId);
    } catch (thrown) {
      if (!(thrown instanceof ServiceError) || thrown.reason !== "NO_MARKET_DATA_YET") throw thrown;
      without.current = { marketId, marketsWithData };
      return undefined;
    }
  };
  return usePoll(request, pollMs, marketsWithData === undefined ? "" : marketId);
}
