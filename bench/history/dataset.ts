import { RecordingWriter, type VenueEventInit } from "../../examples/venues/recording.js";
import { openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { Feed } from "../scale/feed.js";

/** A venue's market, and how its book changes. */
export interface MarketShape {
  /** Of each side. */
  readonly levels: number;
  /** Levels that a block changes. */
  readonly changes: number;
  /** From one block to the next, on average, in milliseconds. */
  readonly blockMs: number;
}

export const marketId = "bench-market";
const firstBlockNs = 1_700_000_000_000_000_000n;
const middlePrice = 1_000_000;
const decimals = 2;

/** Blocks that each change one market's book, at random near its middle. The same shape gives the same blocks. */
export class MarketBlocks {
  readonly #writer = new RecordingWriter("bench");
  #height = 0;
  #timeNs = firstBlockNs;
  #state = 1;

  constructor(private readonly shape: MarketShape) {}

  /** Of the last block made. */
  get height(): number {
    return this.#height;
  }

  /** The market and its whole book. */
  first(): Buffer {
    const scale = { priceDecimals: decimals, sizeDecimals: decimals };
    const side = (sign: number) => Array.from({ length: this.shape.levels }, (_, index) => this.#level(sign, index));
    return this.#block([
      { case: "marketDefinition", value: { marketId, code: "BENCH", name: "a market of the bench", ...scale } },
      { case: "bookSnapshot", value: { marketId, bids: side(-1), asks: side(1) } },
    ]);
  }

  next(): Buffer {
    const { changes } = this.shape;
    const bids = this.#side(-1, changes >> 1);
    return this.#block([{ case: "bookDelta", value: { marketId, bids, asks: this.#side(1, changes - bids.length) } }]);
  }

  #block(events: readonly VenueEventInit[]): Buffer {
    this.#height++;
    this.#timeNs += BigInt(Math.ceil(this.shape.blockMs * (0.5 + this.#random()) * 1e6));
    return this.#writer.block(this.#timeNs, events);
  }

  /** Distinct levels, each with a size that was not there before. */
  #side(sign: number, count: number) {
    const indexes = new Set<number>();
    const wanted = Math.min(count, this.shape.levels);
    while (indexes.size < wanted) indexes.add(Math.floor(this.#random() ** 2 * this.shape.levels));
    return [...indexes].map((index) => this.#level(sign, index));
  }

  #level(sign: number, index: number) {
    const price = ((middlePrice + sign * (index + 1)) / 100).toFixed(decimals);
    const size = ((1 + Math.floor(this.#random() * 1e7)) / 100).toFixed(decimals);
    return { price, size, numberOfOrders: BigInt(1 + Math.floor(this.#random() * 9)) };
  }

  /** From 0 up to 1 (mulberry32). */
  #random(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
}

/** Loads blocks into a new database; its loader goes on. @param blocks how many that change the book */
export async function loadMarket(url: string, market: MarketBlocks, blocks: number): Promise<Feed> {
  await migrate(url, createLog("error"));
  const feed = new Feed(url);
  await feed.write(market.first());
  for (let block = 0; block < blocks; block++) await feed.write(market.next());
  await committed(url, feed, market.height);
  return feed;
}

/** Resolves when the database has a block. */
export async function committed(url: string, feed: Feed, height: number): Promise<void> {
  const database = openDatabase(url, { connectionsMax: 1 });
  try {
    await feed.committed(database, height);
  } finally {
    await database.close();
  }
}
