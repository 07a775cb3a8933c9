import { type ObserveMarketsDataRequest, TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { requireIdentifier } from "../domain/identifier.js";
import { type StreamMethod, serverStreaming } from "../domain/service.js";
import { nothingSent } from "../live/feed.js";
import type { Live } from "../live/live.js";
import { MarketDataFeed } from "../live/market-data-feed.js";

/** ObserveMarketsData: the market data of the given markets, or of all, then what changes. */
export function observeMarketsData(options: { readonly live: Live }): StreamMethod {
  return serverStreaming(TradingDataService.method.observeMarketsData, (request: ObserveMarketsDataRequest) => {
    const ids = [...new Set(request.marketIds.map((id) => requireIdentifier("market_ids", id)))].sort();
    const state = options.live.state();
    const markets = ids.length === 0 ? undefined : ids.map((id) => state.requireMarket(id));
    return options.live.openFeed(`data ${JSON.stringify(ids)}`, nothingSent, () => new MarketDataFeed(state, markets));
  });
}
