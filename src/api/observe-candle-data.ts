import { type ObserveCandleDataRequest, TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { type StreamMethod, serverStreaming } from "../domain/service.js";
import { nothingSent } from "../live/feed.js";
import type { Live } from "../live/live.js";
import type { Database } from "../store/database.js";
import { CandleFeed } from "../trades/candle-feed.js";
import { requireCandles } from "./candle-id.js";

/** ObserveCandleData: the running candle, whenever it changes. */
export function observeCandleData(options: { readonly live: Live; readonly database: Database }): StreamMethod {
  const { live, database } = options;
  return serverStreaming(TradingDataService.method.observeCandleData, ({ candleId }: ObserveCandleDataRequest) => {
    const state = live.state();
    const series = requireCandles(state, candleId);
    return live.openFeed(`candle ${candleId}`, nothingSent, (owner) => new CandleFeed(database, state, series, owner));
  });
}
