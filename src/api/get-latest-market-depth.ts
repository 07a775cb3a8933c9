import { type GetLatestMarketDepthRequest, TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { requireIdentifier } from "../domain/identifier.js";
import { type UnaryMethod, unary } from "../domain/service.js";
import type { Live } from "../live/live.js";

/** GetLatestMarketDepth: the book with at most `maxDepth` levels per side (0 or absent: all), and the last trade. */
export function getLatestMarketDepth(options: { readonly live: Live }): UnaryMethod {
  return unary(TradingDataService.method.getLatestMarketDepth, (request: GetLatestMarketDepthRequest) => {
    const marketId = requireIdentifier("market_id", request.marketId);
    return options.live
      .state()
      .requireBook(marketId)
      .depth(request.maxDepth ?? 0n);
  });
}
