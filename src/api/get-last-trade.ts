import { type GetLastTradeRequest, TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { Failure } from "../domain/failure.js";
import { requireIdentifier } from "../domain/identifier.js";
import { type UnaryMethod, unary } from "../domain/service.js";
import type { Live } from "../live/live.js";

/** GetLastTrade: the newest trade of a market. */
export function getLastTrade(options: { readonly live: Live }): UnaryMethod {
  return unary(TradingDataService.method.getLastTrade, (request: GetLastTradeRequest) => {
    const marketId = requireIdentifier("market_id", request.marketId);
    const { lastTrade } = options.live.state().requireMarket(marketId);
    if (lastTrade !== undefined) return lastTrade;
    throw new Failure("not_found", `market ${marketId} has no trade yet`, { reason: "NO_TRADE_YET" });
  });
}
