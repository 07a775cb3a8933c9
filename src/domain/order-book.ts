import { type BookSide, PriceLadder, sides, sortLevels } from "./price-ladder.js";

/** The fields of an order event that the book reads; enums by the numbers of `vega.Order`. */
export interface OrderEvent {
  readonly id: string;
  readonly marketId: string;
  readonly side: number;
  /** Decimal text; empty or zero if the order has no price. */
  readonly price: string;
  readonly remaining: bigint;
  readonly timeInForce: number;
  readonly type: number;
  readonly status: number;
}

/** An order that rests in a book. */
export interface LiveOrder {
  readonly id: string;
  readonly marketId: string;
  readonly side: BookSide;
  /** Canonical: see {@link canonicalQuantity}. */
  readonly price: string;
  readonly remaining: bigint;
}

/** The sequence numbers of a market. */
export interface DepthPlace {
  readonly marketId: string;
  readonly sequenceNumber: bigint;
  /** Of the last published update; 0 if there is none. */
  readonly publishedSequenceNumber: bigint;
}

/** A level at the end of a block. Volume 0 and no orders: it vanished. */
export interface ChangedLevel {
  readonly side: BookSide;
  readonly price: string;
  readonly volume: bigint;
  readonly numberOfOrders: bigint;
}

/** The changes of a block in one market. Nothing is published if no level changed. */
export interface MarketChange extends DepthPlace {
  readonly levels: readonly ChangedLevel[];
}

/** The changes of a block in all books. */
export interface BookChanges {
  readonly markets: readonly MarketChange[];
  /** Orders that were added, changed or removed (undefined). */
  readonly orders: ReadonlyMap<string, LiveOrder | undefined>;
}

/** The best price of each side with its volume; price "0" and volume 0 if a side is empty. */
export interface BestPrices {
  readonly bidPrice: string;
  readonly bidVolume: bigint;
  readonly offerPrice: string;
  readonly offerVolume: bigint;
}

const statusUnspecified = 0;
const statusActive = 1;
const typeMarket = 2;
const timeInForceIoc = 3;
const timeInForceFok = 4;

interface Level {
  readonly side: BookSide;
  readonly price: string;
  volume: bigint;
  orders: bigint;
  /** The volume at the start of the block. */
  volumeBefore: bigint;
  ordersBefore: bigint;
}

/** A level that is in a book. */
export interface BookLevel extends ChangedLevel {
  readonly marketId: string;
}

/** One market's book with its numbers. It is made of orders, or its levels are set as they are. */
export class MarketBook {
  readonly ladders = { 1: new PriceLadder<Level>(sides.buy), 2: new PriceLadder<Level>(sides.sell) };
  /** Levels that this block changed, by side and price. Vanished levels stay here until the block ends. */
  readonly touched = new Map<string, Level>();
  moved = false;

  constructor(
    readonly marketId: string,
    public sequenceNumber: bigint,
    public published: bigint,
  ) {}

  add(order: LiveOrder): void {
    const level = this.#touch(order.side, order.price);
    level.volume += order.remaining;
    level.orders += 1n;
  }

  remove(order: LiveOrder): void {
    const level = this.#touch(order.side, order.price);
    level.volume -= order.remaining;
    level.orders -= 1n;
    if (level.orders === 0n) this.ladders[order.side].delete(order.price);
  }

  amend(order: LiveOrder, remaining: bigint): void {
    this.#touch(order.side, order.price).volume += remaining - order.remaining;
  }

  /** Sets a level as it is now; volume 0 and no orders: it vanishes. */
  set({ side, price, volume, numberOfOrders }: ChangedLevel): void {
    const level = this.#find(side, price);
    level.volume = volume;
    level.orders = numberOfOrders;
    if (volume === 0n && numberOfOrders === 0n) this.ladders[side].delete(price);
    else this.ladders[side].set(level);
  }

  /** Holds exactly these levels from now on. */
  replace(levels: readonly ChangedLevel[]): void {
    for (const ladder of Object.values(this.ladders)) {
      for (const { side, price } of ladder.levels) {
        const level = this.#find(side, price);
        level.volume = 0n;
        level.orders = 0n;
      }
      ladder.replace([]);
    }
    // Each one is added at the end of its side then: in front of others, it would move them all.
    for (const level of sortLevels(levels)) this.set(level);
  }

  /** The levels as they are, buys before sells, each side best first. */
  levels(): ChangedLevel[] {
    const levels = [...this.ladders[sides.buy].levels, ...this.ladders[sides.sell].levels];
    return levels.map(({ side, price, volume, orders }) => ({ side, price, volume, numberOfOrders: orders }));
  }

  /** Drops the worst levels of each side beyond `levelsMax`. */
  keepBest(levelsMax: number): void {
    for (const { levels } of Object.values(this.ladders)) {
      for (const { side, price } of levels.slice(levelsMax)) this.set({ side, price, volume: 0n, numberOfOrders: 0n });
    }
  }

  /** An event of this number concerned the market, whether or not it changed a level. */
  moveTo(sequenceNumber: bigint): void {
    this.moved = true;
    if (sequenceNumber > this.sequenceNumber) this.sequenceNumber = sequenceNumber;
  }

  /** Publishes an update. Its number is above that of the one before, also where blocks of one time repeat numbers. */
  publish(): void {
    if (this.sequenceNumber <= this.published) this.sequenceNumber = this.published + 1n;
    this.published = this.sequenceNumber;
  }

  settle(): ChangedLevel[] {
    const changed: ChangedLevel[] = [];
    for (const level of this.touched.values()) {
      const { side, price, volume, orders } = level;
      if (volume !== level.volumeBefore || orders !== level.ordersBefore) {
        changed.push({ side, price, volume, numberOfOrders: orders });
      }
      level.volumeBefore = volume;
      level.ordersBefore = orders;
    }
    this.touched.clear();
    return changed;
  }

  #touch(side: BookSide, price: string): Level {
    const level = this.#find(side, price);
    if (level.orders === 0n) this.ladders[side].set(level);
    return level;
  }

  /** A level that is about to change: that of the book, or an empty one. */
  #find(side: BookSide, price: string): Level {
    const key = `${side}${price}`;
    let level = this.touched.get(key) ?? this.ladders[side].get(price);
    if (level === undefined) {
      level = { side, price, volume: 0n, orders: 0n, volumeBefore: 0n, ordersBefore: 0n };
    }
    this.touched.set(key, level);
    return level;
  }
}

/**
 * The books of all markets, kept from the network's own order events (docs/events.md, "The order book") or, where a venue
 * tells of levels, set level by level. Pure: the same events give the same books and numbers, whatever was restarted
 * between them, given {@link OrderBooks.restore}.
 */
export class OrderBooks {
  readonly #books = new Map<string, MarketBook>();
  readonly #orders = new Map<string, LiveOrder>();
  readonly #changedOrders = new Map<string, LiveOrder | undefined>();
  readonly #changedBooks = new Set<MarketBook>();

  /** Books as they were at the end of a block; `levels` are those of books that are not made of orders. */
  static restore(
    orders: readonly LiveOrder[],
    places: Iterable<DepthPlace>,
    levels: readonly BookLevel[] = [],
  ): OrderBooks {
    const books = new OrderBooks();
    for (const place of places) {
      const book = new MarketBook(place.marketId, place.sequenceNumber, place.publishedSequenceNumber);
      books.#books.set(place.marketId, book);
    }
    // In this order for the same reason as in `replace`.
    for (const order of sortLevels(orders)) {
      books.#orders.set(order.id, order);
      books.book(order.marketId).add(order);
    }
    for (const level of sortLevels(levels)) books.book(level.marketId).set(level);
    for (const book of books.#books.values()) book.settle();
    books.#changedBooks.clear();
    return books;
  }

  /** Applies an order event: number `n` of a block of this time (Unix nanoseconds). */
  apply(event: OrderEvent, blockTimeNs: bigint, n: bigint): void {
    if (isIgnored(event)) return;
    this.book(event.marketId).moveTo(eventNumber(blockTimeNs, n));
    const known = this.#orders.get(event.id);
    const order = event.status === statusActive ? restingOrder(event) : undefined;
    if (known === undefined) {
      if (order !== undefined) this.#enter(order);
    } else if (order === undefined) {
      this.#leave(known);
    } else if (order.marketId === known.marketId && order.side === known.side && order.price === known.price) {
      this.book(known.marketId).amend(known, order.remaining);
      this.#remember(order);
    } else {
      this.#leave(known);
      this.#enter(order);
    }
  }

  /** Applies `expired_orders`. Each order in the book takes a number from `n` on, in the order of ids. */
  expire(marketId: string, orderIds: readonly string[], blockTimeNs: bigint, n: bigint): void {
    let number = eventNumber(blockTimeNs, n);
    for (const id of [...orderIds].sort(byBytes)) {
      const order = this.#orders.get(id);
      if (order?.marketId !== marketId) continue;
      this.book(marketId).moveTo(number++);
      this.#leave(order);
    }
  }

  /** The current best prices of a market; those of an empty book if it has no orders. */
  best(marketId: string): BestPrices {
    const ladders = this.#books.get(marketId)?.ladders;
    const bid = ladders?.[sides.buy].levels[0];
    const offer = ladders?.[sides.sell].levels[0];
    return {
      bidPrice: bid?.price ?? "0",
      bidVolume: bid?.volume ?? 0n,
      offerPrice: offer?.price ?? "0",
      offerVolume: offer?.volume ?? 0n,
    };
  }

  /** Ends a block and returns its changes. Markets with changed levels have published an update. */
  endBlock(): BookChanges {
    const markets: MarketChange[] = [];
    for (const book of this.#changedBooks) {
      const levels = book.settle();
      if (levels.length > 0) book.publish();
      if (levels.length === 0 && !book.moved) continue;
      book.moved = false;
      markets.push({
        marketId: book.marketId,
        sequenceNumber: book.sequenceNumber,
        publishedSequenceNumber: book.published,
        levels,
      });
    }
    this.#changedBooks.clear();
    const orders = new Map(this.#changedOrders);
    this.#changedOrders.clear();
    return { markets, orders };
  }

  /** A market's book; undefined if no event has ever concerned it. */
  find(marketId: string): MarketBook | undefined {
    return this.#books.get(marketId);
  }

  /** A market's book, to be changed in this block. */
  book(marketId: string): MarketBook {
    let book = this.#books.get(marketId);
    if (book === undefined) {
      book = new MarketBook(marketId, 0n, 0n);
      this.#books.set(marketId, book);
    }
    this.#changedBooks.add(book);
    return book;
  }

  #enter(order: LiveOrder): void {
    this.book(order.marketId).add(order);
    this.#remember(order);
  }

  #leave(order: LiveOrder): void {
    this.book(order.marketId).remove(order);
    this.#orders.delete(order.id);
    this.#changedOrders.set(order.id, undefined);
  }

  #remember(order: LiveOrder): void {
    this.#orders.set(order.id, order);
    this.#changedOrders.set(order.id, order);
  }
}

/** The depth sequence number of event n of a block: the block time floored to the microsecond, in nanoseconds, plus n. */
export function eventNumber(blockTimeNs: bigint, n: bigint): bigint {
  return blockTimeNs - (blockTimeNs % 1_000n) + n;
}

/** Decimal digits without leading zeros, so that equal quantities are equal text; empty becomes "0". */
export function canonicalQuantity(digits: string): string {
  if (digits.charCodeAt(0) !== 0x30 && digits !== "") return digits;
  return digits.replace(/^0+(?=.)/, "") || "0";
}

function isIgnored(event: OrderEvent): boolean {
  return (
    event.type === typeMarket ||
    event.timeInForce === timeInForceFok ||
    event.timeInForce === timeInForceIoc ||
    event.status === statusUnspecified
  );
}

/** The order as it would rest in the book; undefined if it has no remaining volume, price or side. */
function restingOrder(event: OrderEvent): LiveOrder | undefined {
  const { id, marketId, remaining, side } = event;
  const price = canonicalQuantity(event.price);
  if (remaining === 0n || price === "0" || (side !== sides.buy && side !== sides.sell)) return undefined;
  return { id, marketId, side, price, remaining };
}

function byBytes(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
