import { type Market, type Market_State, Market_TradingMode } from "../../gen/vega/markets_pb.js";
import {
  type AuctionTrigger,
  Order_Status,
  Order_TimeInForce,
  Order_Type,
  OrderError,
  PeggedReference,
  Side,
  Trade_Type,
} from "../../gen/vega/vega_pb.js";
import type { Asset } from "./asset.js";
import { type BlockWriter, eventKinds } from "./block-writer.js";
import { feeBasisPoints } from "./market-definition.js";
import type { MarketKind } from "./market-kind.js";
import type { MarketRole } from "./market-role.js";
import { anyPrice, MatchingEngine } from "./matching-engine.js";
import type { Random } from "./random.js";
import { orderEvent, type Scale, type SimulatedOrder } from "./simulated-order.js";

/** What a block provides to the actors in it. */
export interface Block {
  readonly height: number;
  readonly timeNs: bigint;
  /** The usual time between blocks. */
  readonly intervalNs: bigint;
  readonly writer: BlockWriter;
}

/** A trade, with what settlement needs. */
export interface Deal {
  readonly buyer: string;
  readonly seller: string;
  /** The side that pays the fees; undefined in an auction: nobody does. */
  readonly aggressor: Side | undefined;
  readonly price: number;
  readonly size: number;
  readonly fees: Fees;
}

/** Amounts of the settlement asset. */
export interface Fees {
  readonly maker: bigint;
  readonly infrastructure: bigint;
  readonly liquidity: bigint;
}

/** A running auction. */
export interface Auction {
  readonly startNs: bigint;
  readonly endNs: bigint;
  readonly trigger: AuctionTrigger;
  readonly extension: AuctionTrigger;
}

const noFees: Fees = { maker: 0n, infrastructure: 0n, liquidity: 0n };
/** The party as which the network trades when it closes positions. */
export const networkParty = "network";

/** A market with its book. Every change is written to the block at once, in the order of the real network. */
export class SimulatedMarket {
  readonly asset: Asset;
  readonly role: MarketRole;
  readonly scale: Scale;
  readonly definition: Market;
  readonly engine = new MatchingEngine<SimulatedOrder>();
  /** Resting and parked orders, oldest first. */
  readonly orders = new Map<string, SimulatedOrder>();
  /** In lots; positive: long. */
  readonly positions = new Map<string, number>();
  /** Trades since the treasury last processed them. */
  deals: Deal[] = [];
  auction: Auction | undefined;
  /** See {@link MarketKind.usualPrice}. */
  readonly usualPrice: number | undefined;
  /** See {@link MarketKind.volatility}. */
  readonly volatility: number;
  /** The price that the parties believe in, in ticks. */
  fairPrice: number;
  markPrice = 0;
  lastTradedPrice = 0;
  /** Something changed since the last market data. */
  touched = false;
  #batch = 0n;
  readonly #random: Random;

  constructor(definition: Market, kind: MarketKind, random: Random) {
    this.definition = definition;
    this.role = kind.role;
    this.asset = kind.asset;
    this.scale = kind.scale;
    this.usualPrice = kind.usualPrice;
    this.volatility = kind.volatility;
    this.#random = random;
    this.fairPrice = kind.usualPrice ?? 20_000 + random.below(20_000);
  }

  get id(): string {
    return this.definition.id;
  }

  /** Whether orders are accepted now. */
  get isOpen(): boolean {
    return this.auction !== undefined || this.definition.tradingMode === Market_TradingMode.CONTINUOUS;
  }

  get openInterest(): number {
    let sum = 0;
    for (const position of this.positions.values()) sum += Math.max(position, 0);
    return sum;
  }

  /** Announces a change of the market itself. */
  update(block: Block, state: Market_State, tradingMode: Market_TradingMode): void {
    this.definition.state = state;
    this.definition.tradingMode = tradingMode;
    this.touched = true;
    block.writer.event(eventKinds.marketUpdated, this.definition);
  }

  /** Accepts an order: it trades, rests, is parked, stopped or rejected. */
  submit(order: SimulatedOrder, block: Block): void {
    this.touched = true;
    const refusal = this.#refusal(order);
    if (refusal !== undefined) this.#write(order, block, Order_Status.REJECTED, refusal);
    else if (order.peg !== undefined) this.#follow(order, block);
    else if (this.auction !== undefined) this.#rest(order, block);
    else if (this.#mustStop(order)) this.#write(order, block, Order_Status.STOPPED);
    else this.#trade(order, block);
  }

  /** Cancels a resting or parked order. */
  withdraw(order: SimulatedOrder, block: Block, status: Order_Status): void {
    this.#forget(order);
    order.updatedAtNs = block.timeNs;
    this.#write(order, block, status);
  }

  /** Changes price and size of a resting order: it may trade at once, and loses its time priority. */
  amend(order: SimulatedOrder, price: number, size: number, block: Block): void {
    const traded = order.size - order.remaining;
    if (size <= traded || order.peg !== undefined) return;
    if (order.postOnly && this.auction === undefined && this.engine.wouldCross(order.side, price)) return;
    this.#forget(order);
    order.price = price;
    order.size = size;
    order.remaining = size - traded;
    order.version += 1n;
    order.updatedAtNs = block.timeNs;
    if (this.auction !== undefined) this.#rest(order, block);
    else this.#trade(order, block);
  }

  /** Expires orders: those in the book with one event, parked ones with an event each. */
  expire(block: Block): void {
    const due = [...this.orders.values()].filter(
      (order) => order.expiryHeight !== 0 && order.expiryHeight <= block.height,
    );
    const orderIds: string[] = [];
    for (const order of due) {
      if (order.parked) {
        this.withdraw(order, block, Order_Status.EXPIRED);
      } else {
        this.#forget(order);
        orderIds.push(order.id);
      }
    }
    if (orderIds.length > 0) block.writer.expiredOrders(this.id, orderIds.sort());
  }

  /** Starts an auction: orders for continuous trading end, and pegged ones are parked. */
  enterAuction(block: Block, auction: Auction): void {
    this.auction = auction;
    this.touched = true;
    for (const order of [...this.orders.values()]) {
      if (order.timeInForce === Order_TimeInForce.GFN) this.withdraw(order, block, Order_Status.CANCELLED);
      else if (order.peg !== undefined && !order.parked) this.#park(order, block);
    }
  }

  /** Executes crossing orders at one price. */
  uncross(block: Block): void {
    this.#batch += 1n;
    this.touched = true;
    const price = this.engine.indicative()?.price;
    const pairs = this.engine.uncross();
    if (price === undefined) return;
    for (const order of new Set(pairs.flatMap((pair) => [pair.buy, pair.sell]))) this.#writeMatched(order, block);
    for (const { buy, sell, size } of pairs) this.#deal(block, buy, sell, price, size, undefined);
  }

  /** Ends the auction: uncrosses, ends orders that were only for it, and restores pegged ones. */
  leaveAuction(block: Block): void {
    this.uncross(block);
    this.auction = undefined;
    for (const order of [...this.orders.values()]) {
      if (order.timeInForce === Order_TimeInForce.GFA) this.withdraw(order, block, Order_Status.STOPPED);
    }
    this.repricePegged(block);
  }

  /** Ends every order. */
  clearOrders(block: Block): void {
    for (const order of [...this.orders.values()]) this.withdraw(order, block, Order_Status.STOPPED);
  }

  /** Moves pegged orders to their reference; parks those without one. */
  repricePegged(block: Block): void {
    if (this.auction !== undefined) return;
    const moved: SimulatedOrder[] = [];
    for (const order of this.orders.values()) {
      const price = this.#pegPrice(order);
      if (order.peg === undefined || (price === order.price && !order.parked)) continue;
      if (price === undefined) {
        if (!order.parked) this.#park(order, block);
        continue;
      }
      if (!order.parked) this.engine.remove(order);
      order.parked = false;
      order.price = price;
      order.updatedAtNs = block.timeNs;
      moved.push(order);
    }
    for (const order of moved) {
      this.engine.add(order);
      this.#write(order, block, Order_Status.ACTIVE);
    }
  }

  /** The network closes a position against the book. */
  closeOut(order: SimulatedOrder, block: Block): void {
    this.touched = true;
    this.#trade(order, block);
  }

  /** A pegged order starts parked, and moves to its price at once if there is one. */
  #follow(order: SimulatedOrder, block: Block): void {
    order.parked = true;
    this.orders.set(order.id, order);
    this.#write(order, block, Order_Status.PARKED);
    this.repricePegged(block);
  }

  #mustStop(order: SimulatedOrder): boolean {
    return order.timeInForce === Order_TimeInForce.FOK && this.engine.fillable(order) < order.remaining;
  }

  #pegPrice(order: SimulatedOrder): number | undefined {
    if (order.peg === undefined) return undefined;
    const bid = this.engine.bestStatic(Side.BUY).price;
    const offer = this.engine.bestStatic(Side.SELL).price;
    if (bid === 0 || offer === 0) return undefined;
    const references = new Map([
      [PeggedReference.MID, order.side === Side.BUY ? Math.floor((bid + offer) / 2) : Math.ceil((bid + offer) / 2)],
      [PeggedReference.BEST_BID, bid],
      [PeggedReference.BEST_ASK, offer],
    ]);
    const reference = references.get(order.peg.reference) ?? 0;
    const price = order.side === Side.BUY ? reference - order.peg.offset : reference + order.peg.offset;
    return price > 0 ? price : undefined;
  }

  #refusal(order: SimulatedOrder): OrderError | undefined {
    if (!this.isOpen) return OrderError.MARKET_CLOSED;
    const { timeInForce } = order;
    if (this.auction === undefined) {
      if (timeInForce === Order_TimeInForce.GFA) return OrderError.CANNOT_SEND_GFA_ORDER_DURING_CONTINUOUS_TRADING;
      const wouldTrade = order.postOnly && this.engine.wouldCross(order.side, order.price);
      return wouldTrade ? OrderError.POST_ONLY_ORDER_WOULD_TRADE : undefined;
    }
    if (timeInForce === Order_TimeInForce.IOC) return OrderError.CANNOT_SEND_IOC_ORDER_DURING_AUCTION;
    if (timeInForce === Order_TimeInForce.FOK) return OrderError.CANNOT_SEND_FOK_ORDER_DURING_AUCTION;
    if (timeInForce === Order_TimeInForce.GFN) return OrderError.CANNOT_SEND_GFN_ORDER_DURING_AN_AUCTION;
    return undefined;
  }

  #trade(order: SimulatedOrder, block: Block): void {
    const fills = this.engine.match(order);
    if (order.remaining === 0) {
      this.#write(order, block, Order_Status.FILLED);
    } else if (isImmediate(order)) {
      this.#write(order, block, fills.length > 0 ? Order_Status.PARTIALLY_FILLED : Order_Status.STOPPED);
    } else if (this.engine.wouldCross(order.side, order.price)) {
      const status = fills.length > 0 ? Order_Status.PARTIALLY_FILLED : Order_Status.STOPPED;
      this.#write(order, block, status, OrderError.SELF_TRADING);
    } else {
      this.#rest(order, block);
    }
    for (const { passive } of fills) this.#writeMatched(passive, block);
    for (const { passive, price, size } of fills) {
      const [buy, sell] = order.side === Side.BUY ? [order, passive] : [passive, order];
      this.#deal(block, buy, sell, price, size, order.side);
    }
  }

  #deal(
    block: Block,
    buy: SimulatedOrder,
    sell: SimulatedOrder,
    price: number,
    size: number,
    aggressor: Side | undefined,
  ): void {
    const byNetwork = aggressor !== undefined && (buy.party === networkParty || sell.party === networkParty);
    const fees = aggressor === undefined || byNetwork ? noFees : this.#fees(price, size);
    const feeEvent = {
      makerFee: fees.maker.toString(),
      infrastructureFee: fees.infrastructure.toString(),
      liquidityFee: fees.liquidity.toString(),
    };
    const zeroFeeEvent = { makerFee: "0", infrastructureFee: "0", liquidityFee: "0" };
    block.writer.event(eventKinds.trade, {
      id: this.#random.identifier(),
      marketId: this.id,
      price: this.scale.price(price),
      size: this.scale.size(size),
      buyer: buy.party,
      seller: sell.party,
      aggressor: aggressor ?? Side.UNSPECIFIED,
      buyOrder: buy.id,
      sellOrder: sell.id,
      timestamp: block.timeNs,
      type: byNetwork ? Trade_Type.NETWORK_CLOSE_OUT_BAD : Trade_Type.DEFAULT,
      ...(aggressor === undefined
        ? { buyerAuctionBatch: this.#batch, sellerAuctionBatch: this.#batch }
        : {
            buyerFee: aggressor === Side.BUY ? feeEvent : zeroFeeEvent,
            sellerFee: aggressor === Side.SELL ? feeEvent : zeroFeeEvent,
          }),
    });
    this.lastTradedPrice = price;
    this.#position(buy.party, size);
    this.#position(sell.party, -size);
    this.deals.push({
      buyer: buy.party,
      seller: sell.party,
      aggressor: byNetwork ? undefined : aggressor,
      price,
      size,
      fees,
    });
  }

  #fees(price: number, size: number): Fees {
    const notional = BigInt(price * size) * this.asset.unit;
    return {
      maker: (notional * feeBasisPoints.maker) / 10_000n,
      infrastructure: (notional * feeBasisPoints.infrastructure) / 10_000n,
      liquidity: (notional * feeBasisPoints.liquidity) / 10_000n,
    };
  }

  #position(party: string, change: number): void {
    const position = (this.positions.get(party) ?? 0) + change;
    if (position === 0) this.positions.delete(party);
    else this.positions.set(party, position);
  }

  #rest(order: SimulatedOrder, block: Block): void {
    this.engine.add(order);
    this.orders.set(order.id, order);
    this.#write(order, block, Order_Status.ACTIVE);
  }

  #park(order: SimulatedOrder, block: Block): void {
    this.engine.remove(order);
    order.parked = true;
    order.price = anyPrice(order.side);
    order.updatedAtNs = block.timeNs;
    this.#write(order, block, Order_Status.PARKED);
  }

  #forget(order: SimulatedOrder): void {
    this.touched = true;
    if (!order.parked) this.engine.remove(order);
    this.orders.delete(order.id);
  }

  #writeMatched(order: SimulatedOrder, block: Block): void {
    order.updatedAtNs = block.timeNs;
    const filled = order.remaining === 0;
    if (filled) this.orders.delete(order.id);
    this.#write(order, block, filled ? Order_Status.FILLED : Order_Status.ACTIVE);
  }

  #write(order: SimulatedOrder, block: Block, status: Order_Status, reason?: OrderError): void {
    block.writer.event(eventKinds.order, orderEvent(order, this.id, this.scale, status, reason));
  }
}

function isImmediate(order: SimulatedOrder): boolean {
  const { timeInForce } = order;
  return (
    timeInForce === Order_TimeInForce.IOC || timeInForce === Order_TimeInForce.FOK || order.type !== Order_Type.LIMIT
  );
}
