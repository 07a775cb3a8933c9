import type { Trade } from "../../gen/vega/vega_pb.js";
import { canonicalQuantity } from "../domain/order-book.js";
import { rowTable } from "./table-rows.js";

/** A market or its market data as protobuf bytes. */
export interface KeptWhole {
  readonly marketId: string;
  /** The stream sequence number of the end_block that last changed it. */
  readonly changedSequence: bigint;
  readonly body: Uint8Array;
}

const bodyProperties = ["marketId", "changedSequence", "body"] as const;

export const marketRows = rowTable<KeptWhole>("market", 1, bodyProperties);

export const marketDataRows = rowTable<KeptWhole>("market_data", 1, bodyProperties);

/** An asset as protobuf bytes. */
export interface AssetRow extends Omit<KeptWhole, "marketId"> {
  readonly assetId: string;
}

export const assetRows = rowTable<AssetRow>("asset", 1, ["assetId", "changedSequence", "body"]);

/** The last trade of a market. */
export interface TradeRow {
  readonly marketId: string;
  readonly changedSequence: bigint;
  readonly tradeId: string;
  readonly price: string;
  readonly size: bigint;
  readonly buyer: string;
  readonly seller: string;
  readonly aggressor: number;
  readonly buyOrder: string;
  readonly sellOrder: string;
  /** Block time. */
  readonly timeNs: bigint;
  readonly type: number;
  readonly buyerMakerFee: string;
  readonly buyerInfrastructureFee: string;
  readonly buyerLiquidityFee: string;
  readonly sellerMakerFee: string;
  readonly sellerInfrastructureFee: string;
  readonly sellerLiquidityFee: string;
  readonly buyerAuctionBatch: bigint;
  readonly sellerAuctionBatch: bigint;
}

/** What a trade is besides its market and its place. */
export const tradeProperties = [
  "tradeId",
  "price",
  "size",
  "buyer",
  "seller",
  "aggressor",
  "buyOrder",
  "sellOrder",
  "timeNs",
  "type",
  "buyerMakerFee",
  "buyerInfrastructureFee",
  "buyerLiquidityFee",
  "sellerMakerFee",
  "sellerInfrastructureFee",
  "sellerLiquidityFee",
  "buyerAuctionBatch",
  "sellerAuctionBatch",
] as const;

export const tradeRows = rowTable<TradeRow>("last_trade", 1, ["marketId", "changedSequence", ...tradeProperties]);

/** The row of a trade. A missing part of a fee is "0". */
export function toTradeRow(trade: Trade, changedSequence: bigint, timeNs: bigint): TradeRow {
  const { marketId, id, price, size, buyer, seller, aggressor, buyOrder, sellOrder, type, buyerFee, sellerFee } = trade;
  return {
    ...{
      marketId,
      changedSequence,
      tradeId: id,
      price: canonicalQuantity(price),
      size,
      buyer,
      seller,
      aggressor,
      buyOrder,
      sellOrder,
      timeNs,
      type,
    },
    buyerMakerFee: canonicalQuantity(buyerFee?.makerFee ?? ""),
    buyerInfrastructureFee: canonicalQuantity(buyerFee?.infrastructureFee ?? ""),
    buyerLiquidityFee: canonicalQuantity(buyerFee?.liquidityFee ?? ""),
    sellerMakerFee: canonicalQuantity(sellerFee?.makerFee ?? ""),
    sellerInfrastructureFee: canonicalQuantity(sellerFee?.infrastructureFee ?? ""),
    sellerLiquidityFee: canonicalQuantity(sellerFee?.liquidityFee ?? ""),
    buyerAuctionBatch: trade.buyerAuctionBatch,
    sellerAuctionBatch: trade.sellerAuctionBatch,
  };
}
