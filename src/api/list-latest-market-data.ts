import { type ListLatestMarketDataRequest, TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { requireIdentifier } from "../domain/identifier.js";
import { type UnaryMethod, unary } from "../domain/service.js";
import type { Live } from "../live/live.js";
import { requireMarketData } from "./market-data.js";

/** ListLatestMarketData: of the given markets (without duplicates, by market id), or of every market that has data. */
export function listLatestMarketData(options: { readonly live: Live }): UnaryMethod {
  return unary(TradingDataService.method.listLatestMarketData, (request: ListLatestMarketDataRequest) => {
    const state = options.live.state();
    if (request.market.length === 0) {
      return state.list("", () => state.announced.flatMap((market) => market.data ?? []));
    }
    const ids = [...new Set(request.market.map((id) => requireIdentifier("market", id)))].sort();
    const selected = ids.map((id) => requireMarketData(state, id));
    return state.list(JSON.stringify(ids), () => selected);
  });
}
