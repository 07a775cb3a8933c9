import { Failure } from "../domain/failure.js";
import type { LiveMarketData } from "../live/live-market.js";
import type { LiveState } from "../live/live-state.js";

/** The market data of one market. @throws Failure `not_found` if the market is unknown, or has no data yet */
export function requireMarketData(state: LiveState, marketId: string): LiveMarketData {
  const { data } = state.requireMarket(marketId);
  if (data !== undefined) return data;
  throw new Failure(
    "not_found",
    `market ${marketId} has no market data yet, and a venue's market may never have any; ask for its depth`,
    {
      reason: "NO_MARKET_DATA_YET",
    },
  );
}
