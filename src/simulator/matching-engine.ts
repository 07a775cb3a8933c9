import { Side } from "../../gen/vega/vega_pb.js";

/** What the engine knows of an order: it rests at a price, in ticks, with so many units left. */
export interface BookOrder {
  readonly id: string;
  readonly party: string;
  readonly side: Side;
  /** In ticks of the market; an order without a price limit has {@link anyPrice}. */
  price: number;
  /** In lots of the market. */
  remaining: number;
  /** A pegged order follows the best prices and does not count for the static ones. */
  readonly pegged: boolean;
}

/** The orders at one price, oldest first. */
export interface Level<O extends BookOrder> {
  readonly price: number;
  readonly orders: O[];
  volume: number;
  /** Volume of the orders that are not pegged. */
  staticVolume: number;
}

/** A match of a resting order; both orders' `remaining` are already reduced. */
export interface Fill<O extends BookOrder> {
  readonly passive: O;
  readonly price: number;
  readonly size: number;
}

/** The best price of a side and its volume; zeros: the side is empty. */
export interface Best {
  readonly price: number;
  readonly volume: number;
}

const emptySide: Best = { price: 0, volume: 0 };

/** The price limit of an order that takes any price. */
export function anyPrice(side: Side): number {
  return side === Side.BUY ? Number.MAX_SAFE_INTEGER : 0;
}

function crosses(side: Side, limit: number, price: number): boolean {
  return side === Side.BUY ? price <= limit : price >= limit;
}

/** A book with price and time priority. Auctions only add to it, and `uncross` at their end. */
export class MatchingEngine<O extends BookOrder> {
  /** Best first. */
  readonly #buy: Level<O>[] = [];
  readonly #sell: Level<O>[] = [];

  side(side: Side): readonly Level<O>[] {
    return side === Side.BUY ? this.#buy : this.#sell;
  }

  best(side: Side): Best {
    return this.side(side)[0] ?? emptySide;
  }

  bestStatic(side: Side): Best {
    const level = this.side(side).find((each) => each.staticVolume > 0);
    return level === undefined ? emptySide : { price: level.price, volume: level.staticVolume };
  }

  add(order: O): void {
    const levels = order.side === Side.BUY ? this.#buy : this.#sell;
    let at = 0;
    for (let level = levels[at]; level !== undefined; level = levels[++at]) {
      if (level.price === order.price) break;
      if (order.side === Side.BUY ? level.price < order.price : level.price > order.price) break;
    }
    let level = levels[at];
    if (level === undefined || level.price !== order.price) {
      level = { price: order.price, orders: [], volume: 0, staticVolume: 0 };
      levels.splice(at, 0, level);
    }
    level.orders.push(order);
    change(level, order, order.remaining);
  }

  /** Takes a resting order out. @throws Error when it does not rest here */
  remove(order: O): void {
    const levels = order.side === Side.BUY ? this.#buy : this.#sell;
    const at = levels.findIndex((level) => level.price === order.price);
    const level = levels[at];
    const place = level?.orders.indexOf(order) ?? -1;
    if (level === undefined || place < 0) throw new Error(`order ${order.id} does not rest in this book`);
    level.orders.splice(place, 1);
    change(level, order, -order.remaining);
    if (level.orders.length === 0) levels.splice(at, 1);
  }

  /** How much of an incoming order would trade at once. */
  fillable(order: O): number {
    let volume = 0;
    for (const level of this.side(order.side === Side.BUY ? Side.SELL : Side.BUY)) {
      if (!crosses(order.side, order.price, level.price)) break;
      for (const passive of level.orders) {
        if (passive.party === order.party || volume >= order.remaining) return Math.min(volume, order.remaining);
        volume += passive.remaining;
      }
    }
    return Math.min(volume, order.remaining);
  }

  /** Whether an order at this price would meet one of the other side. */
  wouldCross(side: Side, price: number): boolean {
    const level = this.side(side === Side.BUY ? Side.SELL : Side.BUY)[0];
    return level !== undefined && crosses(side, price, level.price);
  }

  /** Trades an incoming order against the book, and stops early before an order of the same party. */
  match(order: O): Fill<O>[] {
    const levels = order.side === Side.BUY ? this.#sell : this.#buy;
    const fills: Fill<O>[] = [];
    for (let level = levels[0]; level !== undefined && order.remaining > 0; level = levels[0]) {
      const passive = level.orders[0];
      if (passive === undefined || !crosses(order.side, order.price, level.price)) break;
      if (passive.party === order.party) break;
      const size = Math.min(order.remaining, passive.remaining);
      order.remaining -= size;
      reduceFirst(levels, level, passive, size);
      fills.push({ passive, price: level.price, size });
    }
    return fills;
  }

  /** The price at which an auction trades most, and that volume; undefined where the book does not cross. */
  indicative(): { readonly price: number; readonly volume: number } | undefined {
    let found: { price: number; volume: number } | undefined;
    for (const level of [...this.#buy, ...this.#sell]) {
      const bought = volumeWithin(this.#buy, Side.SELL, level.price);
      const sold = volumeWithin(this.#sell, Side.BUY, level.price);
      const volume = Math.min(bought, sold);
      if (volume > (found?.volume ?? 0)) found = { price: level.price, volume };
    }
    return found;
  }

  /** Ends an auction: takes pairs of the best orders while they cross. Every pair trades at the caller's one price. */
  uncross(): { readonly buy: O; readonly sell: O; readonly size: number }[] {
    const pairs: { buy: O; sell: O; size: number }[] = [];
    for (;;) {
      const buyLevel = this.#buy[0];
      const sellLevel = this.#sell[0];
      const buy = buyLevel?.orders[0];
      const sell = sellLevel?.orders[0];
      if (buyLevel === undefined || sellLevel === undefined || buy === undefined || sell === undefined) return pairs;
      if (buyLevel.price < sellLevel.price) return pairs;
      const size = Math.min(buy.remaining, sell.remaining);
      reduceFirst(this.#buy, buyLevel, buy, size);
      reduceFirst(this.#sell, sellLevel, sell, size);
      pairs.push({ buy, sell, size });
    }
  }
}

function change<O extends BookOrder>(level: Level<O>, order: O, volume: number): void {
  level.volume += volume;
  if (!order.pegged) level.staticVolume += volume;
}

function reduceFirst<O extends BookOrder>(levels: Level<O>[], level: Level<O>, order: O, size: number): void {
  order.remaining -= size;
  change(level, order, -size);
  if (order.remaining === 0) level.orders.shift();
  if (level.orders.length === 0) levels.shift();
}

function volumeWithin<O extends BookOrder>(levels: readonly Level<O>[], taker: Side, limit: number): number {
  let volume = 0;
  for (const level of levels) {
    if (!crosses(taker, limit, level.price)) break;
    volume += level.volume;
  }
  return volume;
}
