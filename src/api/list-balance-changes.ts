import {
  type ListBalanceChangesRequest,
  ListBalanceChangesResponseSchema,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { blockMetadata } from "../domain/block-headers.js";
import { decodePlaceCursor, encodePlaceCursor } from "../domain/cursor.js";
import { readDateRange } from "../domain/date-range.js";
import { connectionOf, readPagination } from "../domain/page.js";
import { type Call, type UnaryMethod, unary } from "../domain/service.js";
import { MessageResponse } from "../encoding/message-response.js";
import type { Account } from "../ledger/account-directory.js";
import { type BalanceChange, type BalancePlace, readBalanceChanges } from "../ledger/balance-changes.js";
import type { LedgerReader } from "../ledger/ledger-reader.js";
import { readAccountFilter } from "./ledger-filter.js";

/** ListBalanceChanges: a page of the balances that differ at the end of a block from those before, by block and account. */
export function listBalanceChanges(options: { readonly ledger: LedgerReader }): UnaryMethod {
  return unary(TradingDataService.method.listBalanceChanges, async (request: ListBalanceChangesRequest, call: Call) => {
    const side = readAccountFilter("filter", request.filter);
    const pageRequest = readPagination(request.pagination, decode);
    const time = readDateRange(request.dateRange);
    const page = await readBalanceChanges(options.ledger, side, time, pageRequest, call);
    return new MessageResponse(
      ListBalanceChangesResponseSchema,
      { balances: connectionOf(page, pageRequest, edge, cursorOf) },
      { metadata: blockMetadata(page.newestBlock) },
    );
  });
}

function decode(field: string, text: string): BalancePlace {
  const [height, account] = decodePlaceCursor("balances", field, text);
  return { height, account: Number(account) };
}

function cursorOf({ height, account }: BalancePlace): string {
  return encodePlaceCursor("balances", height, BigInt(account));
}

function edge(change: BalanceChange & { readonly of: Account }) {
  const { timeNs: timestamp, balance, of } = change;
  const { partyId, kind } = of;
  const { assetId, type: accountType } = kind;
  const node = { timestamp, balance, partyId, assetId, marketId: kind.marketId || undefined, accountType };
  return { node, cursor: cursorOf(change) };
}
