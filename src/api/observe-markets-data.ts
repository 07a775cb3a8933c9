import { type ObserveMarketsDataRequest, TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { requireIdentifier } from "../domain/identifier.js";
import { type StreamMethod, serverStreaming } from "../domain/service.js";
import type { Live } from "../live/live.js";

/** ObserveMarketsData: the market data of the given markets, or of all, then what changes. */
export function observeMarketsData(options: { readonly live: Live }): StreamMethod {
  return serverStreaming(TradingDataService.method.observeMarketsData, (request: ObserveMarketsDataRequest) => {
    for (const id of request.marketIds) requireIdentifier("market_ids", id);
    return options.live.observeData(request.marketIds);
  });
}
