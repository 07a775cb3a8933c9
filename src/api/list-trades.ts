import {
  type ListTradesRequest,
  ListTradesResponseSchema,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { numberCursors } from "../domain/cursor.js";
import { readDateRange } from "../domain/date-range.js";
import { connectionOf, readPagination } from "../domain/page.js";
import { type Call, type UnaryMethod, unary } from "../domain/service.js";
import { tradeMessage } from "../live/live-market.js";
import type { Database } from "../store/database.js";
import type { PastTradeRow } from "../store/history-table.js";
import { readTrades } from "../trades/trade-reader.js";
import { readIdentifiers } from "./ledger-filter.js";
import { pageResponse } from "./page-response.js";

const cursors = numberCursors("trades");

/** ListTrades: a page of the trades that a filter selects, in the order of the network. */
export function listTrades(options: { readonly database: Database }): UnaryMethod {
  return unary(TradingDataService.method.listTrades, async (request: ListTradesRequest, call: Call) => {
    const filter = {
      marketIds: readIdentifiers("market_ids", request.marketIds),
      partyIds: readIdentifiers("party_ids", request.partyIds),
      orderIds: readIdentifiers("order_ids", request.orderIds),
    };
    const pageRequest = readPagination(request.pagination, cursors.decode);
    const time = readDateRange(request.dateRange);
    const page = await readTrades(options.database, filter, time, pageRequest, call);
    const edge = (row: PastTradeRow) => ({ node: tradeMessage(row), cursor: cursors.encode(row.id) });
    const trades = connectionOf(page, pageRequest, edge, cursors.encode);
    return pageResponse(ListTradesResponseSchema, page, { trades });
  });
}
