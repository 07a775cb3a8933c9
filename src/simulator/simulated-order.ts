import {
  type Order_Status,
  type Order_TimeInForce,
  type Order_Type,
  type OrderError,
  type OrderSchema,
  Order_Type as OrderType,
  type PeggedReference,
} from "../../gen/vega/vega_pb.js";
import type { Encodable } from "../encoding/field-values.js";
import { anyPrice, type BookOrder } from "./matching-engine.js";

/** How a pegged order follows the market. */
export interface Peg {
  readonly reference: PeggedReference;
  /** In ticks, away from the mid price. */
  readonly offset: number;
}

/** An order of a party, as the market stores it. */
export interface SimulatedOrder extends BookOrder {
  size: number;
  readonly timeInForce: Order_TimeInForce;
  readonly type: Order_Type;
  readonly createdAtNs: bigint;
  updatedAtNs: bigint;
  readonly expiresAtNs: bigint;
  /** The first block in which it is expired; 0: never. */
  readonly expiryHeight: number;
  readonly reference: string;
  version: bigint;
  readonly batchId: bigint;
  readonly peg: Peg | undefined;
  /** Parked: outside of the book until there is a reference price. */
  parked: boolean;
  readonly liquidityProvisionId: string;
  readonly postOnly: boolean;
  readonly reduceOnly: boolean;
}

/** Converts a market's ticks and lots to the network's integers. */
export interface Scale {
  price(ticks: number): string;
  size(lots: number): bigint;
}

/** The order as its event states it. */
export function orderEvent(
  order: SimulatedOrder,
  marketId: string,
  scale: Scale,
  status: Order_Status,
  reason?: OrderError,
): Encodable<typeof OrderSchema> {
  const priced = order.price !== anyPrice(order.side) && order.type !== OrderType.MARKET;
  return {
    id: order.id,
    marketId,
    partyId: order.party,
    side: order.side,
    price: priced ? scale.price(order.price) : "0",
    size: scale.size(order.size),
    remaining: scale.size(order.remaining),
    timeInForce: order.timeInForce,
    type: order.type,
    createdAt: order.createdAtNs,
    status,
    expiresAt: order.expiresAtNs,
    reference: order.reference,
    ...(reason === undefined ? {} : { reason }),
    updatedAt: order.updatedAtNs,
    version: order.version,
    batchId: order.batchId,
    ...(order.peg === undefined
      ? {}
      : { peggedOrder: { reference: order.peg.reference, offset: scale.price(order.peg.offset) } }),
    liquidityProvisionId: order.liquidityProvisionId,
    postOnly: order.postOnly,
    reduceOnly: order.reduceOnly,
  };
}
