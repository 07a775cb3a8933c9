import {
  type ListCandleDataRequest,
  ListCandleDataResponseSchema,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import type { Candle } from "../domain/candle.js";
import { placeCursors } from "../domain/cursor.js";
import { invalidParameter, worded } from "../domain/failure.js";
import { connectionOf, readPagination } from "../domain/page.js";
import { type Call, type UnaryMethod, unary } from "../domain/service.js";
import type { Live } from "../live/live.js";
import type { Database } from "../store/database.js";
import { type CandlePlace, candleMessage, type PeriodRange, readCandles } from "../trades/candle-reader.js";
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
function readRange({ fromTimestamp, toTimestamp }: ListCandleDataRequest): PeriodRange {
  const fromNs = fromTimestamp === 0n ? undefined : fromTimestamp;
  const toNs = toTimestamp === 0n ? undefined : toTimestamp;
  if (fromNs === undefined || toNs === undefined || fromNs <= toNs) return { fromNs, toNs };
  throw worded(({ field }) => {
    const description = `is ${fromNs}, after ${field("to_timestamp")}, which is ${toNs}`;
    return invalidParameter(field("from_timestamp"), description, "INVALID_DATE_RANGE");
  });
}
