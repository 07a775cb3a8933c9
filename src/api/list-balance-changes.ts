import {
  type ListBalanceChangesRequest,
  ListBalanceChangesResponseSchema,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { placeCursors } from "../domain/cursor.js";
import { readDateRange } from "../domain/date-range.js";
import { connectionOf, readPagination } from "../domain/page.js";
import { type Call, type UnaryMethod, unary } from "../domain/service.js";
import type { Account } from "../ledger/account-directory.js";
import { type BalanceChange, type BalancePlace, readBalanceChanges } from "../ledger/balance-changes.js";
import type { LedgerReader } from "../ledger/ledger-reader.js";
import { readAccountFilter } from "./ledger-filter.js";
import { pageResponse } from "./page-response.js";

const cursors = placeCursors<BalancePlace>(
  "balances",
  ({ height, account }) => [height, BigInt(account)],
  (height, account) => ({ height, account: Number(account) }),
);

/** ListBalanceChanges: a page of the balances that differ at the end of a block from those before, by block and account. */
export function listBalanceChanges(options: { readonly ledger: LedgerReader }): UnaryMethod {
  return unary(TradingDataService.method.listBalanceChanges, async (request: ListBalanceChangesRequest, call: Call) => {
    const side = readAccountFilter("filter", request.filter);
    const pageRequest = readPagination(request.pagination, cursors.decode);
    const time = readDateRange(request.dateRange);
    const page = await readBalanceChanges(options.ledger, side, time, pageRequest, call);
    const balances = connectionOf(page, pageRequest, edge, cursors.encode);
    return pageResponse(ListBalanceChangesResponseSchema, page, { balances });
  });
}

function edge(change: BalanceChange & { readonly of: Account }) {
  const { timeNs: timestamp, balance, of } = change;
  const { partyId, kind } = of;
  const { assetId, type: accountType } = kind;
  const node = { timestamp, balance, partyId, assetId, marketId: kind.marketId || undefined, accountType };
  return { node, cursor: cursors.encode(change) };
}
