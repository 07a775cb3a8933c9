import {
  Order_Status,
  Order_TimeInForce,
  Order_Type,
  OrderError,
  PeggedReference,
  Side,
} from "../../gen/vega/vega_pb.js";
import { eventKinds } from "./block-writer.js";
import { anyPrice } from "./matching-engine.js";
import type { Random } from "./random.js";
import { type Block, networkParty, type SimulatedMarket } from "./simulated-market.js";
import { orderEvent, type SimulatedOrder } from "./simulated-order.js";

/** Orders that rest in one market; beyond it every action is a cancellation. */
export const ordersPerMarketMax = 250;
/** Interval at which a liquidity provider replaces its orders, in blocks. */
const provisionInterval = 12;
const provisionLevels = 3;
const lotsMax = 200;
/** Positions of this many lots are only reduced. */
const positionMax = 2_000;

/** What a party does in a market, and its probability in hundredths. */
interface Action {
  readonly hundredths: number;
  readonly act: (market: SimulatedMarket, block: Block) => void;
}

/** The optional properties of an order; the others have ordinary values. */
type Wish = Partial<SimulatedOrder> & Pick<SimulatedOrder, "party" | "side" | "price" | "size">;

const refusals = [
  OrderError.MARGIN_CHECK_FAILED,
  OrderError.INSUFFICIENT_ASSET_BALANCE,
  OrderError.INVALID_SIZE,
  OrderError.REDUCE_ONLY_ORDER_WOULD_NOT_REDUCE_POSITION,
  OrderError.TOO_MANY_PEGGED_ORDERS,
];

/** The actions of parties on their orders. */
export class OrderFlow {
  readonly #random: Random;
  readonly #parties: readonly string[];
  readonly #provider: string;
  readonly #provisionIds = new Map<string, string>();

  /** The rest are ordinary limit orders. */
  readonly #actions: readonly Action[] = [
    { hundredths: 16, act: (market, block) => this.#cancel(market, block) },
    { hundredths: 10, act: (market, block) => this.#amend(market, block) },
    { hundredths: 8, act: (market, block) => this.#market(market, block) },
    { hundredths: 5, act: (market, block) => this.#immediate(market, block) },
    { hundredths: 4, act: (market, block) => this.#pegged(market, block) },
    { hundredths: 3, act: (market, block) => this.#refused(market, block) },
    { hundredths: 1, act: (market, block) => this.#closeOut(market, block) },
  ];

  constructor(random: Random, parties: readonly string[], provider: string) {
    this.#random = random;
    this.#parties = parties;
    this.#provider = provider;
  }

  /**
   * Moves the price that parties believe in: a random walk with steps of up to about a thousandth, within a factor of
   * four. A market with a usual price is pulled back to it, and stays within about one in a hundred.
   */
  drift(market: SimulatedMarket): void {
    const { fairPrice, usualPrice = fairPrice, volatility } = market;
    const step = Math.round((this.#random.bell() * fairPrice * volatility) / 3_000 + (usualPrice - fairPrice) / 500);
    market.fairPrice = Math.min(Math.max(market.fairPrice + step, 10_000), 80_000);
  }

  /** One action of one party in the market. */
  act(market: SimulatedMarket, block: Block): void {
    if (market.orders.size >= ordersPerMarketMax) this.#cancel(market, block);
    else this.#choose()(market, block);
  }

  #choose(): Action["act"] {
    let drawn = this.#random.below(100);
    for (const { hundredths, act } of this.#actions) {
      if (drawn < hundredths) return act;
      drawn -= hundredths;
    }
    return (market, block) => this.#limit(market, block);
  }

  /** The liquidity provider cancels its old orders and quotes around the current price. */
  provide(market: SimulatedMarket, block: Block): void {
    if (block.height % provisionInterval !== 0 && market.orders.size > 0) return;
    let provisionId = this.#provisionIds.get(market.id);
    if (provisionId === undefined) {
      provisionId = this.#random.identifier();
      this.#provisionIds.set(market.id, provisionId);
    }
    for (const order of [...market.orders.values()]) {
      if (order.liquidityProvisionId === provisionId) market.withdraw(order, block, Order_Status.CANCELLED);
    }
    for (let level = 1; level <= provisionLevels; level++) {
      for (const side of [Side.BUY, Side.SELL]) {
        const away = Math.floor((market.fairPrice * market.volatility * level) / 200);
        const price = market.fairPrice + (side === Side.BUY ? -away : away);
        const size = lotsMax * level;
        const wish = { party: this.#provider, side, price, size, liquidityProvisionId: provisionId };
        market.submit(this.#order(wish, block), block);
      }
    }
  }

  #order(wish: Wish, block: Block): SimulatedOrder {
    return {
      id: this.#random.identifier(),
      remaining: wish.size,
      pegged: wish.peg !== undefined,
      timeInForce: Order_TimeInForce.GTC,
      type: Order_Type.LIMIT,
      createdAtNs: block.timeNs,
      updatedAtNs: 0n,
      expiresAtNs: 0n,
      expiryHeight: 0,
      reference: `${wish.party.slice(0, 8)}-${this.#random.hex(6)}`,
      version: 1n,
      batchId: 1n,
      peg: undefined,
      parked: false,
      liquidityProvisionId: "",
      postOnly: false,
      reduceOnly: false,
      ...wish,
    };
  }

  /** The larger a party's position, the more likely it trades against it, so no position grows forever. */
  #side(market: SimulatedMarket, party: string): Side {
    const position = market.positions.get(party) ?? 0;
    return this.#random.chance(0.5 - position / (2 * positionMax)) ? Side.BUY : Side.SELL;
  }

  /** Most are small, a few are large. */
  #size(): number {
    const size = 1 + this.#random.below(lotsMax);
    return this.#random.chance(0.05) ? size * 10 : size;
  }

  /** Mostly a little behind the price, sometimes across it; in an auction as often across as behind. */
  #price(market: SimulatedMarket, side: Side): number {
    const middle = market.auction === undefined ? 0.6 : 0.1;
    const away = Math.round(((middle + this.#random.bell() / 2) * market.fairPrice * market.volatility) / 250);
    return Math.max(1, market.fairPrice + (side === Side.BUY ? -away : away));
  }

  #expiry(block: Block): Pick<SimulatedOrder, "timeInForce" | "expiresAtNs" | "expiryHeight"> {
    const blocks = this.#random.between(3, 40);
    return {
      timeInForce: Order_TimeInForce.GTT,
      expiresAtNs: block.timeNs + BigInt(blocks) * block.intervalNs - 1n,
      expiryHeight: block.height + blocks,
    };
  }

  #limit(market: SimulatedMarket, block: Block): void {
    const { auction } = market;
    const party = this.#random.pick(this.#parties);
    const side = this.#side(market, party);
    const wish: Wish = {
      party,
      side,
      price: this.#price(market, side),
      size: this.#size(),
    };
    const drawn = this.#random.unit();
    if (drawn < 0.3) Object.assign(wish, this.#expiry(block));
    else if (drawn < 0.4 && auction === undefined) Object.assign(wish, { timeInForce: Order_TimeInForce.GFN });
    else if (drawn < 0.4) Object.assign(wish, { timeInForce: Order_TimeInForce.GFA });
    else if (drawn < 0.5) Object.assign(wish, { postOnly: true });
    else if (drawn < 0.505) Object.assign(wish, { timeInForce: Order_TimeInForce.GFA });
    market.submit(this.#order(wish, block), block);
  }

  #market(market: SimulatedMarket, block: Block): void {
    const party = this.#random.pick(this.#parties);
    const side = this.#side(market, party);
    const timeInForce = this.#random.chance(0.7) ? Order_TimeInForce.IOC : Order_TimeInForce.FOK;
    const wish = { party, side, price: anyPrice(side), size: this.#size(), timeInForce, type: Order_Type.MARKET };
    market.submit(this.#order({ ...wish, reduceOnly: this.#random.chance(0.1) }, block), block);
  }

  #immediate(market: SimulatedMarket, block: Block): void {
    const party = this.#random.pick(this.#parties);
    const side = this.#side(market, party);
    const timeInForce = this.#random.chance(0.5) ? Order_TimeInForce.IOC : Order_TimeInForce.FOK;
    const price = this.#price(market, side === Side.BUY ? Side.SELL : Side.BUY);
    const wish = { party, side, price, size: this.#size(), timeInForce };
    market.submit(this.#order(wish, block), block);
  }

  #pegged(market: SimulatedMarket, block: Block): void {
    const party = this.#random.pick(this.#parties);
    const side = this.#side(market, party);
    const best = side === Side.BUY ? PeggedReference.BEST_BID : PeggedReference.BEST_ASK;
    const reference = this.#random.chance(0.5) ? best : PeggedReference.MID;
    const peg = { reference, offset: this.#random.between(1, 40) };
    const wish = { party, side, price: anyPrice(side), size: this.#size(), peg };
    market.submit(this.#order({ ...wish, ...this.#expiry(block) }, block), block);
  }

  #refused(market: SimulatedMarket, block: Block): void {
    const party = this.#random.pick(this.#parties);
    const side = this.#side(market, party);
    const order = this.#order({ party, side, price: this.#price(market, side), size: this.#size() }, block);
    const reason = this.#random.pick(refusals);
    const event = orderEvent(order, market.id, market.scale, Order_Status.REJECTED, reason);
    block.writer.event(eventKinds.order, event);
  }

  /** The network takes over part of a position and closes it. */
  #closeOut(market: SimulatedMarket, block: Block): void {
    // In an auction the network waits.
    if (market.auction !== undefined) return;
    const side = this.#side(market, networkParty);
    const order = this.#order({ party: networkParty, side, price: anyPrice(side), size: this.#size() }, block);
    const network = { ...order, type: Order_Type.NETWORK, timeInForce: Order_TimeInForce.FOK };
    market.closeOut(network, block);
  }

  #someOrder(market: SimulatedMarket): SimulatedOrder | undefined {
    if (market.orders.size === 0) return undefined;
    let skip = this.#random.below(market.orders.size);
    for (const order of market.orders.values()) if (skip-- === 0) return order;
    return undefined;
  }

  #cancel(market: SimulatedMarket, block: Block): void {
    const order = this.#someOrder(market);
    if (order !== undefined) market.withdraw(order, block, Order_Status.CANCELLED);
  }

  #amend(market: SimulatedMarket, block: Block): void {
    const order = this.#someOrder(market);
    if (order === undefined || order.parked) return;
    const price = this.#random.chance(0.5) ? order.price : this.#price(market, order.side);
    const size = Math.max(1, order.size + this.#random.between(-order.size, lotsMax));
    market.amend(order, price, size, block);
  }
}
