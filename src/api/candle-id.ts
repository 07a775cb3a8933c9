import { candleIntervals, parseCandleId } from "../domain/candle.js";
import { invalidArgument, repeated } from "../domain/failure.js";
import { requireIdentifier } from "../domain/identifier.js";
import type { LiveState } from "../live/live-state.js";
import type { CandleSeries } from "../trades/candle-reader.js";

/** The series that a candle id names. @throws Failure naming the field, `not_found` if the market is unknown */
export function requireCandles(state: LiveState, candleId: string): CandleSeries {
  const series = parseCandleId(candleId);
  if (series === undefined) {
    const names = candleIntervals.map(({ name }) => name.replaceAll(" ", "_")).join(", ");
    const takes = `it takes trades_candle_, an interval (${names}), _ and a market id, as ListCandleIntervals gives them`;
    throw invalidArgument("candle_id", `is ${JSON.stringify(repeated(candleId))}; ${takes}`, "INVALID_CANDLE_ID");
  }
  state.requireMarket(requireIdentifier("candle_id", series.marketId));
  return series;
}
