import { create } from "@bufbuild/protobuf";
import {
  type BookDelta,
  type BookLevel,
  type BookSnapshot,
  ChecksumAlgorithm,
  type MarketDefinition,
  type VenueTrade,
} from "../../gen/marketd/events/v1/venue_pb.js";
import { type Market, Market_State, Market_TradingMode, MarketSchema } from "../../gen/vega/markets_pb.js";
import { type Trade, Trade_Type, TradeSchema } from "../../gen/vega/vega_pb.js";
import type { ChangedLevel, OrderBooks } from "../domain/order-book.js";
import { type BookSide, sides } from "../domain/price-ladder.js";
import { scaleDecimal } from "../domain/scaled-decimal.js";
import type { VenueMarketRow } from "../store/venue-market-table.js";
import { checksumOf } from "./book-checksum.js";
import { checkId, fieldError, isQuantity, isUint64, requireId, shown } from "./field-checks.js";
import { RecordingError } from "./recording-error.js";

/** The most decimals of a venue's prices and sizes. */
export const decimalsMax = 30;

/**
 * The most levels a side of a venue's book, and of one of its snapshots or deltas. Venues publish up to some ten thousand:
 * more is a feed whose removals are missing, and would take memory in every process.
 */
export const sideLevelsMax = 100_000;

/** Free text of a market definition, in characters each. */
export const definitionTextLengthMax = 1_024;

/** The most tags of a market definition. */
export const definitionTagsMax = 100;

/** What became of venues' book updates, over the whole load. */
export interface VenueCounts {
  /** Snapshots, and deltas that were applied. */
  applied: number;
  /** Deltas that were no newer than the book. */
  old: number;
  /** Deltas of stale markets. */
  ignored: number;
  /** How often a market became stale. */
  stale: number;
}

/**
 * Markets of venues that publish price levels (docs/events.md, "Venues"): sets the levels of their books, and checks each
 * update against the venue's own sequence numbers and checksums. One that is wrong or missing makes its market stale: all
 * deltas are ignored then, until a snapshot.
 */
export class VenueMarkets {
  readonly counts: VenueCounts = { applied: 0, old: 0, ignored: 0, stale: 0 };
  readonly #books: OrderBooks;
  readonly #markets = new Map<string, VenueMarketRow>();
  readonly #changed = new Set<string>();
  readonly #onStale: (marketId: string, reason: string) => void;

  /** Goes on with markets as the store has them; `books` hold their levels. */
  constructor(
    books: OrderBooks,
    markets: readonly VenueMarketRow[],
    onStale: (marketId: string, reason: string) => void,
  ) {
    this.#books = books;
    for (const market of markets) this.#markets.set(market.marketId, market);
    this.#onStale = onStale;
  }

  /** Whether a venue defined this market. */
  has(marketId: string): boolean {
    return this.#markets.has(marketId);
  }

  /** The markets that changed since the last time. */
  takeChanged(): VenueMarketRow[] {
    const rows = [...this.#changed].flatMap((marketId) => this.#markets.get(marketId) ?? []);
    this.#changed.clear();
    return rows;
  }

  /** Applies a definition, event `number`; gives the market that clients are told of. @throws RecordingError */
  define(definition: MarketDefinition, number: bigint): Market {
    checkDefinition(definition);
    const { marketId, priceDecimals, sizeDecimals, depthMax, checksumAlgorithm } = definition;
    const before = this.#markets.get(marketId);
    if (before === undefined && this.#books.has(marketId)) {
      throw new RecordingError(`defines market ${shown(marketId)} as a venue's, but its book is made of orders`);
    }
    this.#books.book(marketId).moveTo(number);
    const scale = { priceDecimals, sizeDecimals, depthMax, checksumAlgorithm };
    if (before === undefined) {
      this.#set({ marketId, ...scale, venueSequence: undefined, stale: true });
    } else if (Object.entries(scale).some(([name, value]) => before[name as keyof typeof scale] !== value)) {
      this.#set({ ...before, ...scale });
      this.#becomeStale(marketId, "its definition changed decimals, depth or checksum algorithm");
    }
    return marketMessage(definition);
  }

  /** Applies a snapshot, event `number`. @throws RecordingError */
  applySnapshot(snapshot: BookSnapshot, number: bigint): void {
    const market = this.#require("book_snapshot", snapshot.marketId);
    const book = this.#books.book(market.marketId);
    const excess = excessOf("a snapshot", snapshot.bids.length, snapshot.asks.length);
    if (excess !== undefined) {
      book.moveTo(number);
      // Its reason is told even if the market was stale before.
      this.#set({ ...market, stale: false });
      this.#becomeStale(market.marketId, excess);
      return;
    }
    const levels = scaledLevels("book_snapshot", snapshot, market);
    book.moveTo(number);
    book.replace(levels);
    this.#set({ ...market, venueSequence: snapshot.sequenceNumber, stale: false });
    this.#check("book_snapshot", snapshot, market);
  }

  /** Applies a delta, event `number`, if it goes on from where the book is. @throws RecordingError */
  applyDelta(delta: BookDelta, number: bigint): void {
    const market = this.#require("book_delta", delta.marketId);
    const excess = excessOf("a delta", delta.bids.length, delta.asks.length);
    const levels = excess === undefined ? scaledLevels("book_delta", delta, market) : [];
    const book = this.#books.book(market.marketId);
    book.moveTo(number);
    if (market.stale) {
      this.counts.ignored++;
      return;
    }
    const { sequenceNumber } = delta;
    const held = market.venueSequence;
    if (sequenceNumber !== undefined && held !== undefined && sequenceNumber <= held) {
      this.counts.old++;
      return;
    }
    const gap = gapBefore(delta, held) ?? excess;
    if (gap !== undefined) {
      this.#becomeStale(market.marketId, gap);
      return;
    }
    for (const level of levels) book.set(level);
    if (sequenceNumber !== undefined) this.#set({ ...market, venueSequence: sequenceNumber });
    this.#check("book_delta", delta, market);
  }

  /** The trade that clients are told of; one without an id gets that of its event. @throws RecordingError */
  trade({ marketId, id, price, size, aggressor }: VenueTrade, eventId: string): Trade {
    const market = this.#require("trade", marketId);
    checkId("trade.id", id);
    return create(TradeSchema, {
      id: id || eventId,
      marketId,
      price: scaledPrice("trade.price", price, market),
      size: scaledSize("trade.size", size, market),
      aggressor,
      type: Trade_Type.DEFAULT,
    });
  }

  /** The last steps of an update that was applied: what lies too deep falls off, and the checksum has to be right. */
  #check(kind: string, { marketId, checksum }: BookSnapshot | BookDelta, market: VenueMarketRow): void {
    this.counts.applied++;
    const book = this.#books.book(marketId);
    if (market.depthMax > 0) book.keepBest(market.depthMax);
    const { [sides.buy]: buy, [sides.sell]: sell } = book.ladders;
    const excess = excessOf("the book", buy.levels.length, sell.levels.length);
    if (excess !== undefined) this.#becomeStale(marketId, excess);
    if (checksum === undefined) return;
    const compute = checksumOf(market.checksumAlgorithm);
    if (compute === undefined) {
      throw new RecordingError(
        `has ${kind}.checksum, but the definition of market ${shown(marketId)} names no checksum_algorithm`,
      );
    }
    const found = compute({ ...market, bids: buy.levels, asks: sell.levels });
    if (found !== checksum) this.#becomeStale(marketId, `the update's checksum is ${checksum}, its book's ${found}`);
  }

  #require(kind: string, marketId: string): VenueMarketRow {
    const market = this.#markets.get(requireId(`${kind}.market_id`, marketId));
    if (market !== undefined) return market;
    throw new RecordingError(`has a ${kind} of market ${shown(marketId)}, which no market_definition has named yet`);
  }

  #set(market: VenueMarketRow): void {
    this.#markets.set(market.marketId, market);
    this.#changed.add(market.marketId);
  }

  #becomeStale(marketId: string, reason: string): void {
    const market = this.#markets.get(marketId);
    if (market === undefined || market.stale) return;
    this.#set({ ...market, stale: true });
    this.counts.stale++;
    this.#onStale(marketId, reason);
  }
}

/** Why a delta does not go on from the venue's number that the book has; undefined: it does. */
function gapBefore(
  { sequenceNumber, previousSequenceNumber }: BookDelta,
  held: bigint | undefined,
): string | undefined {
  if (sequenceNumber === undefined) {
    return held === undefined ? undefined : `an update has no sequence number, and the book is at ${held}`;
  }
  if (held === undefined) return `an update has sequence number ${sequenceNumber}, but the snapshot before it has none`;
  const previous = previousSequenceNumber ?? sequenceNumber - 1n;
  return previous <= held ? undefined : `updates are missing: one follows ${previous}, and the book is at ${held}`;
}

/** Why a book or update is too large; undefined: it is not. */
function excessOf(what: string, bids: number, asks: number): string | undefined {
  const levels = Math.max(bids, asks);
  return levels > sideLevelsMax ? `${what} has ${levels} levels a side, more than ${sideLevelsMax}` : undefined;
}

function scaledLevels(kind: string, update: BookSnapshot | BookDelta, market: VenueMarketRow): ChangedLevel[] {
  const side = (name: "bids" | "asks", bookSide: BookSide) => {
    return update[name].map((level) => scaledLevel(`${kind}.${name}`, level, bookSide, market));
  };
  return [...side("bids", sides.buy), ...side("asks", sides.sell)];
}

function scaledLevel(
  field: string,
  { price, size, numberOfOrders }: BookLevel,
  side: BookSide,
  market: VenueMarketRow,
): ChangedLevel {
  const volume = scaledSize(`${field}.size`, size, market);
  return {
    side,
    price: scaledPrice(`${field}.price`, price, market),
    volume,
    numberOfOrders: volume === 0n ? 0n : numberOfOrders,
  };
}

function scaledPrice(field: string, text: string, { priceDecimals }: VenueMarketRow): string {
  const price = scaleDecimal(text, priceDecimals);
  if (price !== undefined && price !== "0" && isQuantity(price)) return price;
  const takes = `a decimal number above 0 of at most ${priceDecimals} decimals, as the market's price_decimals say, below 2^256 when scaled`;
  throw fieldError(field, text, takes);
}

function scaledSize(field: string, text: string, { sizeDecimals }: VenueMarketRow): bigint {
  const size = scaleDecimal(text, sizeDecimals);
  if (size !== undefined && isUint64(size)) return BigInt(size);
  const takes = `a decimal number of at most ${sizeDecimals} decimals, as the market's size_decimals say, below 2^64 when scaled`;
  throw fieldError(field, text, takes);
}

function checkDefinition(definition: MarketDefinition): void {
  const kind = "market_definition";
  requireId(`${kind}.market_id`, definition.marketId);
  for (const name of ["priceDecimals", "sizeDecimals"] as const) {
    const field = `${kind}.${name === "priceDecimals" ? "price_decimals" : "size_decimals"}`;
    if (definition[name] > decimalsMax) throw fieldError(field, `${definition[name]}`, `0 to ${decimalsMax}`);
  }
  const { checksumAlgorithm, tags, code, name } = definition;
  if (checksumAlgorithm !== ChecksumAlgorithm.UNSPECIFIED && checksumOf(checksumAlgorithm) === undefined) {
    throw fieldError(`${kind}.checksum_algorithm`, `${checksumAlgorithm}`, "a number of marketd's ChecksumAlgorithm");
  }
  if (tags.length > definitionTagsMax) throw fieldError(`${kind}.tags`, `${tags.length} tags`, `${definitionTagsMax}`);
  for (const text of [code, name, ...tags]) {
    if (text.length <= definitionTextLengthMax) continue;
    throw fieldError(kind, text, `texts of at most ${definitionTextLengthMax} characters`);
  }
}

function marketMessage({ marketId, code, name, tags, priceDecimals, sizeDecimals }: MarketDefinition): Market {
  return create(MarketSchema, {
    id: marketId,
    decimalPlaces: BigInt(priceDecimals),
    positionDecimalPlaces: BigInt(sizeDecimals),
    tradableInstrument: { instrument: { id: marketId, code, name, metadata: { tags } } },
    tradingMode: Market_TradingMode.CONTINUOUS,
    state: Market_State.ACTIVE,
  });
}
