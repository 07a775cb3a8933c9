import {
  type AggregatedLedgerEntriesEdge,
  type ListLedgerEntriesRequest,
  type ListLedgerEntriesResponse,
  ListLedgerEntriesResponseSchema,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { MessageAnswer } from "../domain/answer.js";
import { decodeEntryCursor, encodeEntryCursor } from "../domain/cursor.js";
import { readDateRange } from "../domain/date-range.js";
import { type Page, type PageRequest, pageInfo, readPagination } from "../domain/page.js";
import { type Call, type UnaryMethod, unary } from "../domain/service.js";
import type { LedgerEntry, LedgerReader } from "../store/ledger-entry-query.js";
import { readLedgerFilter } from "./ledger-filter.js";

/** ListLedgerEntries: one page of the entries that a filter selects, in the order of the network. */
export function listLedgerEntries(options: { readonly ledger: LedgerReader }): UnaryMethod {
  return unary(TradingDataService.method.listLedgerEntries, async (request: ListLedgerEntriesRequest, call: Call) => {
    const filter = readLedgerFilter(request.filter);
    const pageRequest = readPagination(request.pagination, decodeEntryCursor);
    const time = readDateRange(request.dateRange);
    const page = await options.ledger.page(filter, time, pageRequest, call);
    return new MessageAnswer(ListLedgerEntriesResponseSchema, response(page, pageRequest));
  });
}

function response(page: Page<LedgerEntry, bigint>, request: PageRequest<bigint>): ListLedgerEntriesResponse {
  const edges = page.rows.map(edge);
  const reached = page.reached === undefined ? {} : { reached: encodeEntryCursor(page.reached) };
  return {
    $typeName: "datanode.api.v2.ListLedgerEntriesResponse",
    ledgerEntries: {
      $typeName: "datanode.api.v2.AggregatedLedgerEntriesConnection",
      edges,
      pageInfo: pageInfo(page, request, { first: edges[0]?.cursor, last: edges.at(-1)?.cursor, ...reached }),
    },
  };
}

/** The asset of an entry is that of the account it leaves. */
function edge(entry: LedgerEntry): AggregatedLedgerEntriesEdge {
  const { from, to } = entry;
  return {
    $typeName: "datanode.api.v2.AggregatedLedgerEntriesEdge",
    cursor: encodeEntryCursor(entry.id),
    node: {
      $typeName: "datanode.api.v2.AggregatedLedgerEntry",
      timestamp: entry.timeNs,
      quantity: entry.quantity,
      transferType: entry.entryClass.transferType,
      assetId: from.kind.assetId,
      fromAccountType: from.kind.type,
      toAccountType: to.kind.type,
      fromAccountPartyId: from.partyId,
      toAccountPartyId: to.partyId,
      ...(from.kind.marketId === "" ? {} : { fromAccountMarketId: from.kind.marketId }),
      ...(to.kind.marketId === "" ? {} : { toAccountMarketId: to.kind.marketId }),
      fromAccountBalance: entry.fromBalance,
      toAccountBalance: entry.toBalance,
    },
  };
}
