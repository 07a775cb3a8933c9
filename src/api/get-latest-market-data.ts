import { type GetLatestMarketDataRequest, TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { requireIdentifier } from "../domain/identifier.js";
import { type UnaryMethod, unary } from "../domain/service.js";
import type { Live } from "../live/live.js";
import { requireMarketData } from "./market-data.js";

/** GetLatestMarketData: the latest market data that the network published. */
export function getLatestMarketData(options: { readonly live: Live }): UnaryMethod {
  return unary(TradingDataService.method.getLatestMarketData, (request: GetLatestMarketDataRequest) => {
    const marketId = requireIdentifier("market_id", request.marketId);
    return requireMarketData(options.live.state(), marketId).response;
  });
}
