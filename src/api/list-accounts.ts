import {
  type ListAccountsRequest,
  ListAccountsResponseSchema,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { numberCursors } from "../domain/cursor.js";
import { connectionOf, readPagination } from "../domain/page.js";
import { type Call, type UnaryMethod, unary } from "../domain/service.js";
import { type AccountBalance, readAccountPage } from "../ledger/account-pages.js";
import type { LedgerReader } from "../ledger/ledger-reader.js";
import { readAccountFilter } from "./ledger-filter.js";
import { pageResponse } from "./page-response.js";

const cursors = numberCursors("accounts");

/** ListAccounts: a page of accounts, each with its newest balance, or that as of a time. */
export function listAccounts(options: { readonly ledger: LedgerReader }): UnaryMethod {
  return unary(TradingDataService.method.listAccounts, async (request: ListAccountsRequest, call: Call) => {
    const side = readAccountFilter("filter", request.filter);
    const pageRequest = readPagination(request.pagination, (field, text) => Number(cursors.decode(field, text)));
    const page = await readAccountPage(options.ledger, side, request.asOf, pageRequest, call);
    const accounts = connectionOf(page, pageRequest, edge, cursorOf);
    return pageResponse(ListAccountsResponseSchema, page, { accounts });
  });
}

function cursorOf(account: number): string {
  return cursors.encode(BigInt(account));
}

function edge({ account, balance }: AccountBalance) {
  const { id, partyId: owner, kind } = account;
  const node = { owner, balance, asset: kind.assetId, marketId: kind.marketId, type: kind.type };
  return { node, cursor: cursorOf(id) };
}
