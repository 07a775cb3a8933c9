import {
  type ListCandleDataRequest,
  ListCandleDataResponseSchema,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import type { Candle } from "../domain/candle.js";
import { placeCursors } from "../domain/cursor.js";
import type { TimeRange } from "../domain/date-range.js";
import { invalidParameter, worded } from "../domain/failure.js";
import { connectionOf, readPagination } from "../domain/page.js";
import { type Call, type UnaryMethod, unary } from "../domain/service.js";
import type { Live } from "../live/live.js";
import type { Database } from "../store/database.js";
import { type CandlePlace, candleMessage, readCandles } from "../trades/candle-reader.js";
import { requireCandles } from "./candle-id.js";
import { pageResponse } from "./page-response.js";

const cursors = placeCursors<CandlePlace>(
  "candles",
  ({ startNs, firstTrade }) => [startNs, firstTrade],
  (startNs, firstTrade) => ({ startNs, firstTrade }),
);

/** ListCandleData: a page of candles, by the beginning of their periods. */
export function listCandleData(options: { readonly live: Live; readonly database: Database }): UnaryMethod {
  const { live, database } = options;
  return unary(TradingDataService.method.listCandleData, async (request: ListCandleDataRequest, call: Call) => {
    const series = requireCandles(live.state(), request.candleId);
    const pageRequest = readPagination(request.pagination, cursors.decode);
    const page = await readCandles(database, series, readRange(request), pageRequest, call);
    const edge = (candle: Candle) => ({ node: candleMessage(candle), cursor: cursors.encode(candle) });
    const candles = connectionOf(page, pageRequest, edge, cursors.encode);
    return pageResponse(ListCandleDataResponseSchema, page, { candles });
  });
}

/** Absent times are 0 in the definitions. */
function readRange({ fromTimestamp, toTimestamp }: ListCandleDataRequest): TimeRange {
  const startNs = fromTimestamp === 0n ? undefined : fromTimestamp;
  const endNs = toTimestamp === 0n ? undefined : toTimestamp;
  if (startNs === undefined || endNs === undefined || startNs <= endNs) return { startNs, endNs };
  throw worded(({ field }) => {
    const description = `is ${startNs}, after ${field("to_timestamp")}, which is ${endNs}`;
    return invalidParameter(field("from_timestamp"), description, "INVALID_DATE_RANGE");
  });
}
