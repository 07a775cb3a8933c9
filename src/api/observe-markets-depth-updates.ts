import {
  type ObserveMarketsDepthUpdatesRequest,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { requireIdentifier } from "../domain/identifier.js";
import { type Call, type StreamMethod, serverStreaming } from "../domain/service.js";
import type { Live } from "../live/live.js";

/**
 * ObserveMarketsDepthUpdates: the books of the given markets, or of all, then each change. See docs/depth-stream.md.
 */
export function observeMarketsDepthUpdates(options: { readonly live: Live }): StreamMethod {
  return serverStreaming(
    TradingDataService.method.observeMarketsDepthUpdates,
    (request: ObserveMarketsDepthUpdatesRequest, call: Call) => {
      for (const id of request.marketIds) requireIdentifier("market_ids", id);
      return options.live.observe(request.marketIds, call);
    },
  );
}
