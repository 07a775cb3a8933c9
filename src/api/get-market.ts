import { type GetMarketRequest, TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { requireIdentifier } from "../domain/identifier.js";
import { type UnaryMethod, unary } from "../domain/service.js";
import type { Live } from "../live/live.js";

/** GetMarket: the market as the network last announced it. */
export function getMarket(options: { readonly live: Live }): UnaryMethod {
  return unary(TradingDataService.method.getMarket, (request: GetMarketRequest) => {
    const marketId = requireIdentifier("market_id", request.marketId);
    return options.live.state().requireMarket(marketId).definition.response;
  });
}
