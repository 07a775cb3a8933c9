import { create } from "@bufbuild/protobuf";
import type { VenueEventInit } from "../../examples/venues/recording.js";
import {
  BookDeltaSchema,
  BookSnapshotSchema,
  ChecksumAlgorithm,
  type MarketDefinition,
  MarketDefinitionSchema,
} from "../../gen/marketd/events/v1/venue_pb.js";
import type { Side } from "../chaos/book.js";
import type { RandomSource } from "../chaos/random-source.js";
import { VenueBook } from "./venue-book.js";

/** How the books of a market are. Shares are of blocks. */
export interface BookShape {
  readonly name: string;
  /** Of each side, about. */
  readonly levels: number;
  /** In a delta, of both sides. */
  readonly changesMax: number;
  /** Deltas in a block; default: 2. */
  readonly deltasMax?: number;
  readonly priceDecimals: number;
  /** Of a scaled price; default: 7. */
  readonly priceDigits?: number;
  /** Share with an update. */
  readonly busy: number;
  readonly depthMax?: number;
  /** Share with an update that is missing or wrong. */
  readonly fails?: number;
  /** Share with a definition of other decimals. */
  readonly redefines?: number;
  /** Its updates carry Kraken's checksum. */
  readonly isChecked?: boolean;
  /** Its updates carry no sequence numbers. */
  readonly isUnnumbered?: boolean;
}

/** Share of the blocks of a stale market that bring the snapshot which heals it. */
const healed = 0.15;
/** Share of updates of markets that are not stale that are whole books. */
const snapshots = 0.01;
const trades = 0.2;
const sizeDigits = 12;

/** A market of a venue: random levels near a price that drifts, with everything that makes books stale. */
export class RandomBook {
  /** What the venue's book is; the same as readers' unless they miss something. */
  readonly #book: VenueBook;
  #definition: MarketDefinition;
  #middle: bigint;
  #number = 1n;
  #isDefined = false;
  /** Readers know that their book is wrong. */
  #isStale = true;

  constructor(
    readonly marketId: string,
    readonly shape: BookShape,
    private readonly random: RandomSource,
  ) {
    this.#definition = create(MarketDefinitionSchema, {
      ...{ marketId, code: shape.name, name: `${shape.name} market`, priceDecimals: shape.priceDecimals },
      ...{ sizeDecimals: random.below(4), depthMax: shape.depthMax ?? 0 },
      checksumAlgorithm: shape.isChecked === true ? ChecksumAlgorithm.CRC32_OF_10 : 0,
    });
    this.#book = new VenueBook(this.#definition, () => {});
    const digits = shape.priceDigits ?? 7;
    this.#middle = BigInt(`1${Array.from({ length: digits - 1 }, () => random.below(10)).join("")}`);
  }

  /** The market's events of the next block. */
  next(): VenueEventInit[] {
    const { random, shape } = this;
    if (!this.#isDefined) {
      this.#isDefined = true;
      const define = this.#define();
      return random.next() < 0.5 ? [define] : [define, this.#snapshot()];
    }
    const events: VenueEventInit[] = [];
    if (random.next() < (shape.redefines ?? 0)) events.push(this.#redefine());
    if (this.#isStale && random.next() < healed) events.push(this.#snapshot());
    if (random.next() < shape.busy) events.push(...this.#updates());
    if (random.next() < trades) events.push(this.#trade());
    return events;
  }

  #updates(): VenueEventInit[] {
    const { random, shape } = this;
    if (!this.#isStale && random.next() < snapshots) return [this.#snapshot()];
    const events: VenueEventInit[] = [];
    for (let count = 1 + random.below(shape.deltasMax ?? 2); count > 0; count--) events.push(this.#delta());
    if (!this.#isStale && random.next() < (shape.fails ?? 0)) events.push(...this.#failure());
    return events;
  }

  /** Something that makes the market stale: a delta that is left out, or a wrong checksum. */
  #failure(): VenueEventInit[] {
    this.#isStale = true;
    const wrong = this.#delta();
    if (this.shape.isChecked === true && wrong.case === "bookDelta") {
      return [{ case: "bookDelta", value: { ...wrong.value, checksum: ((wrong.value.checksum ?? 0) ^ 1) >>> 0 } }];
    }
    return [this.#delta()];
  }

  #define(): VenueEventInit {
    return { case: "marketDefinition", value: this.#definition };
  }

  #redefine(): VenueEventInit {
    const { shape, random } = this;
    const priceDecimals = shape.priceDecimals - random.below(2);
    this.#isStale ||= this.#definition.priceDecimals !== priceDecimals;
    this.#definition = create(MarketDefinitionSchema, { ...this.#definition, priceDecimals });
    this.#book.define(this.#definition);
    return this.#define();
  }

  /** The whole book, which is another if readers' is unknown anyway. */
  #snapshot(): VenueEventInit {
    const { levels } = this.shape;
    const { marketId } = this;
    const isNew = this.#isStale && this.random.next() < 0.8;
    const { buy, sell } = this.#book.book.best(Number.POSITIVE_INFINITY);
    const told = isNew
      ? { bids: this.#random(1, levels, 1), asks: this.#random(2, levels, 1) }
      : { bids: buy.map((level) => this.#told(level)), asks: sell.map((level) => this.#told(level)) };
    this.#isStale = false;
    const numbered = this.shape.isUnnumbered === true ? {} : { sequenceNumber: this.#number };
    return this.#applied({ case: "bookSnapshot", value: { marketId, ...told, ...numbered } });
  }

  #delta(): VenueEventInit {
    const { random, marketId, shape } = this;
    const count = 1 + random.below(shape.changesMax);
    const bids = random.below(count + 1);
    this.#middle += BigInt(random.below(3) - 1);
    const previousSequenceNumber = this.#number;
    this.#number += BigInt(1 + random.below(3));
    const numbered = shape.isUnnumbered === true ? {} : { previousSequenceNumber, sequenceNumber: this.#number };
    const told = { bids: this.#random(1, bids, 0.7), asks: this.#random(2, count - bids, 0.7) };
    return this.#applied({ case: "bookDelta", value: { marketId, ...told, ...numbered } });
  }

  /** With the checksum of the venue's book, which has it then. */
  #applied(event: VenueEventInit): VenueEventInit {
    const book = this.#book;
    if (event.case === "bookSnapshot") {
      const bare = create(BookSnapshotSchema, event.value);
      book.snapshot(bare);
    } else if (event.case === "bookDelta") book.delta(create(BookDeltaSchema, event.value));
    if (this.shape.isChecked !== true) return event;
    const checksum = book.checksum();
    if (event.case === "bookSnapshot") return { case: event.case, value: { ...event.value, checksum } };
    if (event.case === "bookDelta") return { case: event.case, value: { ...event.value, checksum } };
    return event;
  }

  #trade(): VenueEventInit {
    const { random, marketId } = this;
    const price = decimalText(this.#middle, this.#definition.priceDecimals);
    const id = random.next() < 0.5 ? "" : `t${random.below(1e9)}`;
    return { case: "trade", value: { marketId, id, price, size: this.#size(), aggressor: random.below(3) } };
  }

  /** Random levels of a side; each is there with probability `share`, and otherwise gone. */
  #random(side: Side, count: number, share: number) {
    const { random, shape } = this;
    return Array.from({ length: count }, () => {
      // Most changes are near the middle.
      const span = random.next() < 0.5 ? Math.ceil(shape.levels / 4) : shape.levels * 2;
      const steps = BigInt(1 + random.below(span));
      const price = this.#middle + (side === 1 ? -steps : steps);
      const isThere = random.next() < share;
      const size = isThere ? this.#size() : "0";
      return {
        price: decimalText(price, this.#definition.priceDecimals),
        size,
        numberOfOrders: BigInt(random.below(5)),
      };
    });
  }

  #told({ price, volume, orders }: { price: string; volume: bigint; orders: bigint }) {
    const { priceDecimals, sizeDecimals } = this.#definition;
    const size = decimalText(volume, sizeDecimals);
    return { price: decimalText(BigInt(price), priceDecimals), size, numberOfOrders: orders };
  }

  #size(): string {
    const digits = 1 + this.random.below(sizeDigits);
    const scaled = BigInt(Array.from({ length: digits }, () => 1 + this.random.below(9)).join(""));
    return decimalText(scaled, this.#definition.sizeDecimals);
  }
}

function decimalText(scaled: bigint, decimals: number): string {
  if (decimals === 0) return scaled.toString();
  const digits = scaled.toString().padStart(decimals + 1, "0");
  return `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`;
}
