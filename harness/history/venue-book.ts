import { crc32 } from "node:zlib";
import {
  type BookDelta,
  type BookSnapshot,
  ChecksumAlgorithm,
  type MarketDefinition,
} from "../../gen/marketd/events/v1/venue_pb.js";
import { Book, type Level, type Side } from "../chaos/book.js";

/** Levels a side that make a market stale. */
const levelsMax = 100_000;
/** Levels a side that Kraken's checksum is of. */
const checkedLevels = 10;

/** A venue's book and its checks, as docs/events.md describes them under "Venues". */
export class VenueBook {
  readonly book = new Book();
  isStale = true;
  #definition: MarketDefinition;
  #number: bigint | undefined;

  constructor(
    definition: MarketDefinition,
    /** Hears of each level before it changes. */
    private readonly onChange: (side: Side, price: string) => void,
  ) {
    this.#definition = definition;
  }

  define(definition: MarketDefinition): void {
    const fields = ["priceDecimals", "sizeDecimals", "depthMax", "checksumAlgorithm"] as const;
    if (fields.some((field) => this.#definition[field] !== definition[field])) this.isStale = true;
    this.#definition = definition;
  }

  price(text: string): string {
    return scaled(text, this.#definition.priceDecimals).toString();
  }

  size(text: string): bigint {
    return scaled(text, this.#definition.sizeDecimals);
  }

  snapshot(snapshot: BookSnapshot): void {
    if (isTooLarge(snapshot)) {
      this.isStale = true;
      return;
    }
    this.isStale = false;
    this.#number = snapshot.sequenceNumber;
    const told = [this.#levels(snapshot.bids), this.#levels(snapshot.asks)];
    const { buy, sell } = this.book.best(Number.POSITIVE_INFINITY);
    for (const [side, held] of [[1, buy] as const, [2, sell] as const]) {
      const levels = told[side - 1] ?? new Map<string, Level>();
      for (const { price } of held) if (!levels.has(price)) this.#set(side, { price, volume: 0n, orders: 0n });
      for (const level of levels.values()) this.#set(side, level);
    }
    this.#end(snapshot.checksum);
  }

  delta(delta: BookDelta): void {
    const { sequenceNumber } = delta;
    if (this.isStale) return;
    if (sequenceNumber !== undefined && this.#number !== undefined && sequenceNumber <= this.#number) return;
    const previous = delta.previousSequenceNumber ?? (sequenceNumber ?? 0n) - 1n;
    const isNumbered = (sequenceNumber === undefined) === (this.#number === undefined);
    const follows = sequenceNumber === undefined || this.#number === undefined || previous <= this.#number;
    if (!isNumbered || !follows || isTooLarge(delta)) {
      this.isStale = true;
      return;
    }
    this.#number = sequenceNumber;
    for (const level of this.#levels(delta.bids).values()) this.#set(1, level);
    for (const level of this.#levels(delta.asks).values()) this.#set(2, level);
    this.#end(delta.checksum);
  }

  /** What Kraken would tell of the book as it is; changes beyond it are seen only there. */
  checksum(): number {
    const { buy, sell } = this.book.best(checkedLevels);
    return crc32([...sell, ...buy].map(({ price, volume }) => `${price}${volume}`).join(""));
  }

  /** Books of more than 100,000 levels a side are not tried here. */
  #end(checksum: number | undefined): void {
    const { depthMax, checksumAlgorithm } = this.#definition;
    if (depthMax > 0) {
      const { buy, sell } = this.book.best(Number.POSITIVE_INFINITY);
      for (const { price } of buy.slice(depthMax)) this.#set(1, { price, volume: 0n, orders: 0n });
      for (const { price } of sell.slice(depthMax)) this.#set(2, { price, volume: 0n, orders: 0n });
    }
    // The other two only occur in recordings of venues, whose checksums are all right.
    if (checksum === undefined || checksumAlgorithm !== ChecksumAlgorithm.CRC32_OF_10) return;
    if (checksum !== this.checksum()) this.isStale = true;
  }

  #levels(levels: BookDelta["bids"]): Map<string, Level> {
    const last = new Map<string, Level>();
    for (const level of levels) {
      const [price, volume] = [this.price(level.price), this.size(level.size)];
      last.set(price, { price, volume, orders: volume === 0n ? 0n : level.numberOfOrders });
    }
    return last;
  }

  /** Without volume it goes. */
  #set(side: Side, level: Level): void {
    this.onChange(side, level.price);
    this.book.set(side, level);
  }
}

function isTooLarge({ bids, asks }: BookDelta | BookSnapshot): boolean {
  return Math.max(bids.length, asks.length) > levelsMax;
}

/** Decimal text as an integer of so many decimals. */
function scaled(text: string, decimals: number): bigint {
  const [whole = "", fraction = ""] = text.split(".");
  return BigInt(whole + fraction.replace(/0+$/, "").padEnd(decimals, "0"));
}
