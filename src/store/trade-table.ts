import type { Trade } from "../../gen/vega/vega_pb.js";
import type { Connection, Parameter } from "./driver-connection.js";
import type { TableRows } from "./table-rows.js";
import { upsertRows } from "./upsert.js";

/** The last trade of a market. */
export interface TradeRow {
  readonly changedSequence: bigint;
  readonly trade: Trade;
  /** Block time. */
  readonly timeNs: bigint;
}

const columns = [
  "market_id",
  "changed_sequence",
  "trade_id",
  "price",
  "size",
  "buyer",
  "seller",
  "aggressor",
  "buy_order",
  "sell_order",
  "time_ns",
  "type",
  "buyer_maker_fee",
  "buyer_infrastructure_fee",
  "buyer_liquidity_fee",
  "seller_maker_fee",
  "seller_infrastructure_fee",
  "seller_liquidity_fee",
  "buyer_auction_batch",
  "seller_auction_batch",
] as const;

/** A missing part of a fee is "0". */
export const tradeRows: TableRows<TradeRow> = { table: "last_trade", columns, keyColumns: 1, values };

/** Stores last trades. */
export async function writeLastTrades(connection: Connection, rows: readonly TradeRow[]): Promise<void> {
  await upsertRows(connection, tradeRows, rows);
}

function values({ changedSequence, trade, timeNs }: TradeRow): Parameter[] {
  const fees = [trade.buyerFee, trade.sellerFee].flatMap((fee) => [
    fee?.makerFee || "0",
    fee?.infrastructureFee || "0",
    fee?.liquidityFee || "0",
  ]);
  return [
    trade.marketId,
    changedSequence,
    trade.id,
    trade.price,
    trade.size,
    trade.buyer,
    trade.seller,
    trade.aggressor,
    trade.buyOrder,
    trade.sellOrder,
    timeNs,
    trade.type,
    ...fees,
    trade.buyerAuctionBatch,
    trade.sellerAuctionBatch,
  ];
}
