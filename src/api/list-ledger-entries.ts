import {
  type AggregatedLedgerEntriesEdgeSchema,
  type ListLedgerEntriesRequest,
  ListLedgerEntriesResponseSchema,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { numberCursors } from "../domain/cursor.js";
import { readDateRange } from "../domain/date-range.js";
import { connectionOf, readPagination } from "../domain/page.js";
import { type Call, type UnaryMethod, unary } from "../domain/service.js";
import type { Encodable } from "../encoding/field-values.js";
import type { LedgerEntry, LedgerReader } from "../ledger/ledger-reader.js";
import { readLedgerFilter } from "./ledger-filter.js";
import { pageResponse } from "./page-response.js";

const cursors = numberCursors("ledger");

/** ListLedgerEntries: one page of the entries that a filter selects, in the order of the network. */
export function listLedgerEntries(options: { readonly ledger: LedgerReader }): UnaryMethod {
  return unary(TradingDataService.method.listLedgerEntries, async (request: ListLedgerEntriesRequest, call: Call) => {
    const filter = readLedgerFilter(request.filter);
    const pageRequest = readPagination(request.pagination, cursors.decode);
    const time = readDateRange(request.dateRange);
    const page = await options.ledger.page(filter, time, pageRequest, call);
    const ledgerEntries = connectionOf(page, pageRequest, edge, cursors.encode);
    return pageResponse(ListLedgerEntriesResponseSchema, page, { ledgerEntries });
  });
}

type Edge = Encodable<typeof AggregatedLedgerEntriesEdgeSchema>;

/** The asset of an entry is that of the account that pays. */
function edge(entry: LedgerEntry): Edge & { readonly cursor: string } {
  const { from, to } = entry;
  return {
    cursor: cursors.encode(entry.id),
    node: {
      timestamp: entry.timeNs,
      quantity: entry.quantity,
      transferType: entry.entryClass.transferType,
      assetId: from.kind.assetId,
      fromAccountType: from.kind.type,
      toAccountType: to.kind.type,
      fromAccountPartyId: from.partyId,
      toAccountPartyId: to.partyId,
      fromAccountMarketId: from.kind.marketId || undefined,
      toAccountMarketId: to.kind.marketId || undefined,
      fromAccountBalance: entry.fromBalance,
      toAccountBalance: entry.toBalance,
    },
  };
}
