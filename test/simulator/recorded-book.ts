import type { BusEvent } from "../../gen/vega/events/v1/events_pb.js";
import { Market_TradingMode } from "../../gen/vega/markets_pb.js";
import {
  type MarketData,
  type Order,
  Order_Status,
  Order_TimeInForce,
  Order_Type,
  Side,
} from "../../gen/vega/vega_pb.js";

interface LiveOrder {
  readonly side: Side;
  readonly price: bigint;
  readonly remaining: bigint;
}

/** A side's best price and volume, as a market data event states them. */
export interface StatedBest {
  readonly price: string;
  readonly volume: bigint;
}

/**
 * The book of one market, made from its events by the rules of the recording format and by nothing of ours: one map of
 * orders, looked through for each question.
 */
export class RecordedBook {
  readonly #orders = new Map<string, LiveOrder>();

  apply(order: Order): void {
    const ignored =
      order.type === Order_Type.MARKET ||
      order.timeInForce === Order_TimeInForce.FOK ||
      order.timeInForce === Order_TimeInForce.IOC ||
      order.status === Order_Status.UNSPECIFIED;
    if (ignored) return;
    this.#orders.delete(order.id);
    if (order.status !== Order_Status.ACTIVE || order.remaining === 0n) return;
    this.#orders.set(order.id, { side: order.side, price: BigInt(order.price), remaining: order.remaining });
  }

  expire(orderIds: readonly string[]): number {
    return orderIds.filter((id) => this.#orders.delete(id)).length;
  }

  best(side: Side): StatedBest {
    let price: bigint | undefined;
    let volume = 0n;
    for (const order of this.#orders.values()) {
      if (order.side !== side) continue;
      const isBetter = price === undefined || (side === Side.BUY ? order.price > price : order.price < price);
      if (isBetter) {
        price = order.price;
        volume = 0n;
      }
      if (order.price === price) volume += order.remaining;
    }
    return { price: (price ?? 0n).toString(), volume };
  }

  get isCrossed(): boolean {
    const bid = this.best(Side.BUY);
    const offer = this.best(Side.SELL);
    return bid.volume > 0n && offer.volume > 0n && BigInt(bid.price) >= BigInt(offer.price);
  }

  get size(): number {
    return this.#orders.size;
  }
}

/** What {@link readBooks} found. */
export interface BooksRead {
  readonly books: ReadonlyMap<string, RecordedBook>;
  readonly marketData: number;
  /** Orders that expired without being in their book. */
  readonly expiredInVain: number;
}

/** Makes the books of a recording, and shows each market data event with its market's book at that place. */
export function readBooks(
  events: readonly BusEvent[],
  compare: (book: RecordedBook, data: MarketData, isContinuous: boolean) => void,
): BooksRead {
  const books = new Map<string, RecordedBook>();
  const modes = new Map<string, Market_TradingMode>();
  let marketData = 0;
  let expiredInVain = 0;
  const bookOf = (id: string): RecordedBook => {
    const book = books.get(id) ?? new RecordedBook();
    books.set(id, book);
    return book;
  };
  for (const { event } of events) {
    switch (event.case) {
      case "order":
        bookOf(event.value.marketId).apply(event.value);
        break;
      case "expiredOrders":
        expiredInVain += event.value.orderIds.length - bookOf(event.value.marketId).expire(event.value.orderIds);
        break;
      case "marketUpdated":
        modes.set(event.value.id, event.value.tradingMode);
        break;
      case "marketData":
        marketData += 1;
        compare(
          bookOf(event.value.market),
          event.value,
          modes.get(event.value.market) === Market_TradingMode.CONTINUOUS,
        );
        break;
      default:
        break;
    }
  }
  return { books, marketData, expiredInVain };
}
