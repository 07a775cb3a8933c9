import type { Candle } from "../domain/candle.js";
import type { Connection } from "./connection/connection.js";
import { rowTable } from "./table-rows.js";

export const candleRows = rowTable<Candle>("candle", 4, [
  "marketId",
  "periodSeconds",
  "startNs",
  "firstTrade",
  "lastNs",
  "open",
  "high",
  "low",
  "close",
  "volume",
  "priceDecimals",
  "sizeDecimals",
]);

/** The newest candles of each market and interval: all that begin when the newest begins. */
export function readNewestCandles(connection: Connection): Promise<Candle[]> {
  return connection.query<Candle>(
    `${candleRows.select} JOIN (SELECT market_id, period_seconds, MAX(start_ns) AS start_ns FROM candle
       GROUP BY market_id, period_seconds) AS newest USING (market_id, period_seconds, start_ns)
     ORDER BY first_trade`,
  );
}
