import { create, fromBinary, toJsonString } from "@bufbuild/protobuf";
import { VenueBusEventSchema, type VenueEvent, type VenueTrade } from "../../gen/marketd/events/v1/venue_pb.js";
import { type BusEvent, BusEventSchema } from "../../gen/vega/events/v1/events_pb.js";
import {
  FeeSchema,
  type Order,
  Order_Status,
  Order_TimeInForce,
  Order_Type,
  type Trade,
  Trade_Type,
  TradeSchema,
} from "../../gen/vega/vega_pb.js";
import { Book, type Level, type Side } from "../chaos/book.js";
import { framesOf } from "../support/frames.js";
import { type BlockEnd, type Decimals, MarketPast, type SidedLevel } from "./market-past.js";
import { VenueBook } from "./venue-book.js";

interface RestingOrder {
  readonly marketId: string;
  readonly side: Side;
  readonly price: string;
  readonly remaining: bigint;
}

/** A market while its events are folded. */
interface OpenMarket {
  readonly past: MarketPast;
  readonly book: Book;
  venue: VenueBook | undefined;
  decimals: Decimals | undefined;
  sequenceNumber: bigint;
  lastTrade: string | undefined;
  /** Levels that this block touched, as they were when it began. */
  readonly before: Map<string, SidedLevel>;
}

/**
 * Books at the end of every block, and what changed from one to the next. Folded from the network's events as
 * docs/events.md says, and with none of the code of loader and service.
 */
export class Oracle {
  readonly blocks: BlockEnd[] = [];
  readonly markets = new Map<string, MarketPast>();
  readonly #open = new Map<string, OpenMarket>();
  readonly #touched = new Set<OpenMarket>();
  readonly #orders = new Map<string, RestingOrder>();
  #height = 0n;
  #timeNs = 0n;
  #isOpen = false;

  get newest(): BlockEnd {
    const newest = this.blocks.at(-1);
    if (newest === undefined) throw new Error("there is no block yet");
    return newest;
  }

  /** Applies whole frames. */
  apply(frames: Uint8Array): void {
    for (const { sequence, body } of framesOf(frames)) this.#frame(body, sequence);
  }

  /** The newest block whose `key` is not above `value`; undefined: there is none. */
  blockAt(key: "height" | "timeNs" | "sequence", value: bigint): BlockEnd | undefined {
    let low = 0;
    let high = this.blocks.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.blocks[middle]?.[key] ?? 0n) <= value) low = middle + 1;
      else high = middle;
    }
    return this.blocks[low - 1];
  }

  /** The last end of a block. */
  lastEnd(block: BlockEnd): BlockEnd {
    return this.blockAt("height", block.height) ?? block;
  }

  #frame(bytes: Uint8Array, sequence: bigint): void {
    const busEvent = fromBinary(BusEventSchema, bytes);
    const n = BigInt(busEvent.id.slice(busEvent.id.indexOf("-") + 1));
    if (busEvent.event.case === undefined) {
      if (!this.#isOpen) return;
      const { event } = fromBinary(VenueBusEventSchema, bytes);
      if (event.case === "venueEvent") this.#venueEvent(event.value.event, n, busEvent.id);
    } else this.#event(busEvent.event, n, sequence);
  }

  #event(event: BusEvent["event"], n: bigint, sequence: bigint): void {
    if (event.case === "beginBlock") {
      this.#height = event.value.height;
      this.#timeNs = event.value.timestamp;
      this.#isOpen = true;
      return;
    }
    if (!this.#isOpen) return;
    switch (event.case) {
      case "endBlock":
        this.#end(sequence);
        break;
      case "marketCreated":
      case "marketUpdated":
        this.#market(event.value.id).decimals = {
          price: event.value.decimalPlaces,
          size: event.value.positionDecimalPlaces,
        };
        break;
      case "trade":
        this.#market(event.value.marketId).lastTrade = tradeText(event.value, this.#timeNs);
        break;
      case "order":
        this.#order(event.value, n);
        break;
      case "expiredOrders":
        this.#expire(event.value.marketId, event.value.orderIds, n);
        break;
      default:
    }
  }

  #venueEvent(event: VenueEvent["event"], n: bigint, eventId: string): void {
    if (event.case === undefined) return;
    const market = this.#market(event.value.marketId);
    if (event.case === "trade") {
      if (market.venue !== undefined)
        market.lastTrade = venueTradeText(event.value, market.venue, eventId, this.#timeNs);
      return;
    }
    this.#number(market, n);
    if (event.case === "marketDefinition") {
      const { priceDecimals, sizeDecimals } = event.value;
      market.decimals = { price: BigInt(priceDecimals), size: BigInt(sizeDecimals) };
      if (market.venue === undefined) market.venue = this.#venueBook(market, event.value);
      else market.venue.define(event.value);
    } else if (event.case === "bookSnapshot") market.venue?.snapshot(event.value);
    else market.venue?.delta(event.value);
  }

  #venueBook(market: OpenMarket, definition: ConstructorParameters<typeof VenueBook>[0]): VenueBook {
    const venue = new VenueBook(definition, (side, price) => remember(market, venue.book, side, price));
    return venue;
  }

  #end(sequence: bigint): void {
    this.#isOpen = false;
    const block: BlockEnd = { index: this.blocks.length, height: this.#height, timeNs: this.#timeNs, sequence };
    this.blocks.push(block);
    for (const market of this.#touched) endBlock(market, block);
    this.#touched.clear();
  }

  #market(id: string): OpenMarket {
    let market = this.#open.get(id);
    if (market === undefined) {
      const past = new MarketPast(id);
      market = {
        ...{ past, book: new Book(), venue: undefined, decimals: undefined },
        ...{ sequenceNumber: 0n, lastTrade: undefined, before: new Map<string, SidedLevel>() },
      };
      this.#open.set(id, market);
      this.markets.set(id, past);
    }
    this.#touched.add(market);
    return market;
  }

  /** Moves a market's sequence number: the block time floored to the microsecond, plus the event's number. */
  #number(market: OpenMarket, n: bigint): void {
    const number = this.#timeNs - (this.#timeNs % 1000n) + n;
    if (number > market.sequenceNumber) market.sequenceNumber = number;
  }

  #order(order: Order, n: bigint): void {
    if (order.type === Order_Type.MARKET || order.status === Order_Status.UNSPECIFIED) return;
    if (order.timeInForce === Order_TimeInForce.FOK || order.timeInForce === Order_TimeInForce.IOC) return;
    this.#number(this.#market(order.marketId), n);
    const known = this.#orders.get(order.id);
    if (known !== undefined) this.#leave(order.id, known);
    const price = order.price.replace(/^0+/, "");
    if (order.status !== Order_Status.ACTIVE || order.remaining === 0n || price === "") return;
    if (order.side !== 1 && order.side !== 2) return;
    const resting = { marketId: order.marketId, side: order.side, price, remaining: order.remaining } as const;
    this.#orders.set(order.id, resting);
    this.#addToLevel(resting, resting.remaining, 1n);
  }

  #expire(marketId: string, orderIds: readonly string[], n: bigint): void {
    let number = n;
    for (const id of [...orderIds].sort((a, b) => (a < b ? -1 : 1))) {
      const resting = this.#orders.get(id);
      if (resting === undefined || resting.marketId !== marketId) continue;
      this.#number(this.#market(marketId), number);
      number += 1n;
      this.#leave(id, resting);
    }
  }

  #leave(id: string, resting: RestingOrder): void {
    this.#orders.delete(id);
    this.#addToLevel(resting, -resting.remaining, -1n);
  }

  #addToLevel({ marketId, side, price }: RestingOrder, volume: bigint, orders: bigint): void {
    const market = this.#market(marketId);
    remember(market, market.book, side, price);
    const level = market.book.get(side, price) ?? gone(price);
    market.book.set(side, { price, volume: level.volume + volume, orders: level.orders + orders });
  }
}

function gone(price: string): Level {
  return { price, volume: 0n, orders: 0n };
}

function remember(market: OpenMarket, book: Book, side: Side, price: string): void {
  const key = `${side} ${price}`;
  if (!market.before.has(key)) market.before.set(key, { side, ...(book.get(side, price) ?? gone(price)) });
}

/** What a block made of a market. */
function endBlock(market: OpenMarket, block: BlockEnd): void {
  const { past, decimals, venue } = market;
  const book = venue?.book ?? market.book;
  const now = [...market.before.values()].map(({ side, price, volume, orders }) => {
    const level = book.get(side, price) ?? gone(price);
    return { side, ...level, isChanged: level.volume !== volume || level.orders !== orders };
  });
  market.before.clear();
  const levels = now.filter(({ isChanged }) => isChanged).map(({ isChanged: _, ...level }) => level);
  if (levels.length > 0) {
    // A reader takes an update only if its number is above the one that it holds.
    const last = past.updates.at(-1)?.sequenceNumber ?? 0n;
    if (market.sequenceNumber <= last) market.sequenceNumber = last + 1n;
    past.publish({ block, sequenceNumber: market.sequenceNumber, levels, digest: book.digest }, book);
  }
  if (market.lastTrade !== undefined) past.lastTrade.set(block.index, market.lastTrade);
  if (decimals === undefined) return;
  const isStale = venue?.isStale === true;
  const era = past.eras.at(-1);
  const before = past.decimals.at(block.index);
  const isRedefined = before !== undefined && (before.price !== decimals.price || before.size !== decimals.size);
  past.decimals.set(block.index, decimals);
  if (era === undefined || era.isStale !== isStale || (isRedefined && !isStale)) {
    past.eras.push({ block, isStale, isRedefined: isRedefined && era?.isStale === false });
  }
}

/** A trade as JSON, as responses show it. */
function tradeText(trade: Trade, timeNs: bigint): string {
  const none = { makerFee: "0", infrastructureFee: "0", liquidityFee: "0" };
  const feeOf = (fee: Trade["buyerFee"]) => {
    const told = {
      makerFee: fee?.makerFee,
      infrastructureFee: fee?.infrastructureFee,
      liquidityFee: fee?.liquidityFee,
    };
    const parts = Object.entries(told).map(([name, text]) => [name, text === undefined ? "0" : integerText(text)]);
    return create(FeeSchema, { ...none, ...fee, ...Object.fromEntries(parts) });
  };
  const shown = create(TradeSchema, {
    ...trade,
    ...{ price: integerText(trade.price), timestamp: timeNs },
    ...{ buyerFee: feeOf(trade.buyerFee), sellerFee: feeOf(trade.sellerFee) },
  });
  return toJsonString(TradeSchema, shown, { alwaysEmitImplicit: true });
}

function venueTradeText(trade: VenueTrade, venue: VenueBook, eventId: string, timeNs: bigint): string {
  const { marketId, id, price, size, aggressor } = trade;
  const shown = { id: id || eventId, marketId, price: venue.price(price), size: venue.size(size), aggressor };
  return tradeText(create(TradeSchema, { ...shown, type: Trade_Type.DEFAULT }), timeNs);
}

/** Decimal text without leading zeros. */
function integerText(text: string): string {
  return text.replace(/^0+(?=\d)/, "") || "0";
}
