import {
  type ListCandleDataRequest,
  ListCandleDataResponseSchema,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { blockMetadata } from "../domain/block-headers.js";
import type { Candle } from "../domain/candle.js";
import { decodePlaceCursor, encodePlaceCursor } from "../domain/cursor.js";
import { invalidParameter, worded } from "../domain/failure.js";
import { connectionOf, readPagination } from "../domain/page.js";
import { type Call, type UnaryMethod, unary } from "../domain/service.js";
import { MessageResponse } from "../encoding/message-response.js";
import type { Live } from "../live/live.js";
import type { Database } from "../store/database.js";
import { type CandlePlace, candleMessage, type PeriodRange, readCandles } from "../trades/candle-reader.js";
import { requireCandles } from "./candle-id.js";

/** ListCandleData: a page of candles, by the beginning of their periods. */
export function listCandleData(options: { readonly live: Live; readonly database: Database }): UnaryMethod {
  const { live, database } = options;
  return unary(TradingDataService.method.listCandleData, async (request: ListCandleDataRequest, call: Call) => {
    const series = requireCandles(live.state(), request.candleId);
    const pageRequest = readPagination(request.pagination, decode);
    const page = await readCandles(database, series, readRange(request), pageRequest, call);
    const edge = (candle: Candle) => ({ node: candleMessage(candle), cursor: cursorOf(candle) });
    return new MessageResponse(
      ListCandleDataResponseSchema,
      { candles: connectionOf(page, pageRequest, edge, cursorOf) },
      { metadata: blockMetadata(page.newestBlock) },
    );
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

function decode(field: string, text: string): CandlePlace {
  const [startNs, firstTrade] = decodePlaceCursor("candles", field, text);
  return { startNs, firstTrade };
}

function cursorOf({ startNs, firstTrade }: CandlePlace): string {
  return encodePlaceCursor("candles", startNs, firstTrade);
}
