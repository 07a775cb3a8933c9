import { createHash } from "node:crypto";
import { RecordingWriter, type VenueEventInit } from "../../examples/venues/recording.js";

/** The books of a venue, and how much of them changes. */
export interface VenueShape {
  readonly markets: number;
  /** Levels a side of every book; their prices stay. */
  readonly levels: number;
  /** Levels of every book that a block changes. */
  readonly changes: number;
}

/** Markets whose whole books are in one block. */
const booksPerBlock = 20;
const firstBlockNs = 1_700_000_000_000_000_000n;
const blockNs = 500_000_000n;
const middlePrice = 1_000_000;
const decimals = 2;

/** The height of the block that made a sequence number of a book: block time, plus the number of the event. */
export function heightOf(sequenceNumber: bigint): number {
  return Number((sequenceNumber - firstBlockNs) / blockNs);
}

/** Blocks of a venue that publishes price levels: first whole books, then changes of every book in every block. */
export class VenueBlocks {
  readonly marketIds: readonly string[];
  readonly #shape: VenueShape;
  readonly #writer = new RecordingWriter("scale");
  #height = 0;
  /** Changes made so far; they decide what comes next. */
  #changed = 0;

  constructor(shape: VenueShape) {
    this.#shape = shape;
    this.marketIds = Array.from({ length: shape.markets }, (_, market) =>
      createHash("sha256").update(`market ${market}`).digest("hex"),
    );
  }

  /** Height of the last block. */
  get height(): number {
    return this.#height;
  }

  /** All books, some in each block. */
  *books(): Generator<Buffer, void, undefined> {
    for (let at = 0; at < this.marketIds.length; at += booksPerBlock) {
      const some = this.marketIds.slice(at, at + booksPerBlock);
      yield this.#block(some.flatMap((marketId) => [definition(marketId), this.#snapshot(marketId)]));
    }
  }

  /** A block that changes every book. */
  next(): Buffer {
    return this.#block(this.marketIds.map((marketId) => this.#delta(marketId)));
  }

  #block(events: readonly VenueEventInit[]): Buffer {
    this.#height++;
    return this.#writer.block(firstBlockNs + BigInt(this.#height) * blockNs, events);
  }

  #snapshot(marketId: string): VenueEventInit {
    const indexes = Array.from({ length: this.#shape.levels }, (_, index) => index);
    const bids = indexes.map((index) => this.#level(-1 - index));
    const asks = indexes.map((index) => this.#level(index));
    return { case: "bookSnapshot", value: { marketId, bids, asks } };
  }

  /** Near the middle most of the time, as in a real book. */
  #delta(marketId: string): VenueEventInit {
    const { changes, levels } = this.#shape;
    const indexes = Array.from({ length: Math.ceil(changes / 2) }, (_, i) => {
      return i % 2 === 0 ? i : (this.#changed + i * 37) % levels;
    });
    const bids = indexes.map((index) => this.#level(-1 - index));
    const asks = indexes.slice(0, changes - bids.length).map((index) => this.#level(index));
    return { case: "bookDelta", value: { marketId, bids, asks } };
  }

  /** A level this many steps above the middle, with a size that was not there before. */
  #level(steps: number): { price: string; size: string; numberOfOrders: bigint } {
    this.#changed++;
    const price = ((middlePrice + steps) / 100).toFixed(decimals);
    return {
      price,
      size: ((this.#changed % 1e9) / 100).toFixed(decimals),
      numberOfOrders: 1n + BigInt(this.#changed % 9),
    };
  }
}

function definition(marketId: string): VenueEventInit {
  const value = {
    marketId,
    code: marketId.slice(0, 8),
    name: marketId,
    priceDecimals: decimals,
    sizeDecimals: decimals,
  };
  return { case: "marketDefinition", value };
}
