import {
  type ListCandleIntervalsRequest,
  ListCandleIntervalsResponseSchema,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { candleId, candleIntervals } from "../domain/candle.js";
import { requireIdentifier } from "../domain/identifier.js";
import { type UnaryMethod, unary } from "../domain/service.js";
import { MessageResponse } from "../encoding/message-response.js";
import type { Live } from "../live/live.js";

/** ListCandleIntervals: the intervals of a market's candles, each with the id by which they are asked for. */
export function listCandleIntervals(options: { readonly live: Live }): UnaryMethod {
  return unary(TradingDataService.method.listCandleIntervals, (request: ListCandleIntervalsRequest) => {
    const marketId = requireIdentifier("market_id", request.marketId);
    const state = options.live.state();
    state.requireMarket(marketId);
    const fields = {
      intervalToCandleId: candleIntervals.map(({ name }) => ({ interval: name, candleId: candleId(name, marketId) })),
    };
    return new MessageResponse(ListCandleIntervalsResponseSchema, fields, {
      version: `${state.chainVersion}-intervals`,
    });
  });
}
