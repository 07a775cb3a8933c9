import { create } from "@bufbuild/protobuf";
import {
  type BookDelta,
  type BookLevel,
  type BookSnapshot,
  ChecksumAlgorithm,
  type MarketDefinition,
  MarketDefinitionSchema,
  type VenueTrade,
} from "../../gen/marketd/events/v1/venue_pb.js";
import { type Market, Market_State, Market_TradingMode, MarketSchema } from "../../gen/vega/markets_pb.js";
import { type Trade, Trade_Type, TradeSchema } from "../../gen/vega/vega_pb.js";
import type { ChangedLevel, OrderBooks } from "../domain/order-book.js";
import { type BookSide, sides } from "../domain/price-ladder.js";
import { scaleDecimal } from "../domain/scaled-decimal.js";
import type { VenueMarketRow } from "../store/depth-table.js";
import { checksumOf } from "./book-checksum.js";
import { checkTexts, decimalsMax, fieldError, isQuantity, isUint64, requireId, shown } from "./field-checks.js";
import { RecordingError } from "./recording-error.js";

/**
 * The most levels a side of a venue's book, and of one of its snapshots or deltas. Venues publish up to some ten thousand:
 * more is a feed whose removals are missing, and would take memory in every process.
 */
export const sideLevelsMax = 100_000;

/** What a definition says about every update of its market. */
const scaleFields = ["priceDecimals", "sizeDecimals", "depthMax", "checksumAlgorithm"] as const;

/** The names of its fields, as the definitions write them. */
const { field: fieldOf } = MarketDefinitionSchema;

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
  /** Those that operators were told to be stale, also by an earlier loader. */
  readonly #stale: Set<string>;
  readonly #onChange: (marketId: string, staleReason: string | undefined) => void;

  /**
   * Goes on with markets as the store has them; `books` hold their levels. `onChange` gets the reason when a market
   * becomes stale, and undefined when it no longer is.
   */
  constructor(
    books: OrderBooks,
    markets: readonly VenueMarketRow[],
    onChange: (marketId: string, staleReason: string | undefined) => void,
  ) {
    this.#books = books;
    for (const market of markets) this.#markets.set(market.marketId, market);
    // One that had no snapshot yet was never right.
    const hadBook = ({ marketId, venueSequence }: VenueMarketRow): boolean =>
      venueSequence !== undefined ||
      Object.values(books.book(marketId).ladders).some(({ levels }) => levels.length > 0);
    this.#stale = new Set(markets.filter((market) => market.stale && hadBook(market)).map(({ marketId }) => marketId));
    this.#onChange = onChange;
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
    const isDifferent = this.difference(definition) !== undefined;
    const before = this.#markets.get(marketId);
    if (before === undefined && this.#books.find(marketId) !== undefined) {
      throw new RecordingError(`defines market ${shown(marketId)} as a venue's, but its book is made of orders`);
    }
    this.#books.book(marketId).moveTo(number);
    const scale = { priceDecimals, sizeDecimals, depthMax, checksumAlgorithm };
    if (before === undefined) {
      this.#set({ marketId, ...scale, venueSequence: undefined, stale: true });
    } else if (isDifferent) {
      this.#set({ ...before, ...scale });
      this.#becomeStale(marketId, "its definition changed decimals, depth or checksum algorithm");
    }
    return marketMessage(definition);
  }

  /** How a definition differs from that of the same market here; undefined: it does not. */
  difference(definition: MarketDefinition): string | undefined {
    const here = this.#markets.get(definition.marketId);
    const parts = here === undefined ? [] : scaleFields.filter((name) => here[name] !== definition[name]);
    if (here === undefined || parts.length === 0) return undefined;
    return parts.map((name) => `${fieldOf[name].name} ${definition[name]} and not ${here[name]}`).join(", ");
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
    const { marketId } = market;
    if (this.#markets.get(marketId)?.stale === false && this.#stale.delete(marketId))
      this.#onChange(marketId, undefined);
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
    return create(TradeSchema, {
      id: requireId("trade.id", id || eventId),
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
    this.#stale.add(marketId);
    this.#onChange(marketId, reason);
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

function scaledPrice(field: string, text: string, { marketId, priceDecimals }: VenueMarketRow): string {
  const price = scaleDecimal(text, priceDecimals);
  if (price !== undefined && price !== "0" && isQuantity(price)) return price;
  const takes = `a decimal number above 0 of at most ${priceDecimals} decimals, as price_decimals of market ${shown(marketId)} says, below 2^256 when scaled`;
  throw fieldError(field, text, `${takes}${remedyIfFiner(text, "price_decimals", priceDecimals)}`);
}

function scaledSize(field: string, text: string, { marketId, sizeDecimals }: VenueMarketRow): bigint {
  const size = scaleDecimal(text, sizeDecimals);
  if (size !== undefined && isUint64(size)) return BigInt(size);
  const takes = `a decimal number of at most ${sizeDecimals} decimals, as size_decimals of market ${shown(marketId)} says, below 2^64 when scaled`;
  throw fieldError(field, text, `${takes}${remedyIfFiner(text, "size_decimals", sizeDecimals)}`);
}

/** What to do about a number with more decimals than its market has; empty for any other. */
function remedyIfFiner(text: string, field: string, decimals: number): string {
  const needed = /^\d+\.(\d*[1-9])0*$/.exec(text)?.[1]?.length ?? 0;
  if (needed <= decimals || needed > decimalsMax) return "";
  return `; before it, write a market_definition with ${field} of at least ${needed}, then a book_snapshot`;
}

function checkDefinition(definition: MarketDefinition): void {
  const kind = "market_definition";
  requireId(`${kind}.market_id`, definition.marketId);
  for (const name of ["priceDecimals", "sizeDecimals"] as const) {
    if (definition[name] <= decimalsMax) continue;
    throw fieldError(`${kind}.${fieldOf[name].name}`, `${definition[name]}`, `0 to ${decimalsMax}`);
  }
  const { checksumAlgorithm, tags, code, name } = definition;
  if (checksumAlgorithm !== ChecksumAlgorithm.UNSPECIFIED && checksumOf(checksumAlgorithm) === undefined) {
    throw fieldError(`${kind}.checksum_algorithm`, `${checksumAlgorithm}`, "a number of marketd's ChecksumAlgorithm");
  }
  checkTexts({ [`${kind}.code`]: code, [`${kind}.name`]: name }, `${kind}.tags`, tags);
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
