import { type GetLatestMarketDepthRequest, TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { blockMetadata } from "../domain/block-headers.js";
import { quotaKey } from "../domain/client-address.js";
import { requireIdentifier } from "../domain/identifier.js";
import { type Call, type UnaryMethod, unary } from "../domain/service.js";
import { BookResponse } from "../live/book-response.js";
import type { Live } from "../live/live.js";

/** GetLatestMarketDepth: the book with at most `maxDepth` levels per side (0 or absent: all), and the last trade. */
export function getLatestMarketDepth(options: { readonly live: Live }): UnaryMethod {
  const { live } = options;
  return unary(TradingDataService.method.getLatestMarketDepth, (request: GetLatestMarketDepthRequest, call: Call) => {
    const marketId = requireIdentifier("market_id", request.marketId);
    const response = live
      .state()
      .requireBook(marketId)
      .depth(request.maxDepth ?? 0n);
    if (!(response instanceof BookResponse)) return response;
    const preparing = response.prepare(call.codec ?? "json", quotaKey(call.clientAddress));
    if (preparing === undefined) return response;
    const block = live.newestBlock();
    // A block that came meanwhile is not in the response.
    return preparing.then(() => (live.newestBlock() === block ? response : response.with(blockMetadata(block))));
  });
}
