import { PriceLadder, sides } from "./price-ladder.js";

/** A price level: `vega.PriceLevel`, as a message or as a plain object. */
export interface DepthLevel {
  /** Decimal text, an integer scaled by the market's decimal places. */
  readonly price: string;
  /** Volume at the price. 0 with 0 orders removes the level. */
  readonly volume: bigint;
  readonly numberOfOrders: bigint;
}

/** `vega.MarketDepthUpdate`, as a message or as a plain object. */
export interface DepthUpdate {
  readonly marketId: string;
  readonly buy: readonly DepthLevel[];
  readonly sell: readonly DepthLevel[];
  readonly sequenceNumber: bigint;
  readonly previousSequenceNumber: bigint;
}

/**
 * The result of an update. `applied`; `known`: the book is as new or newer; `gap`: updates are missing, and the book
 * needs a new stream or a new depth response. Streams of this service never have gaps.
 */
export type FoldOutcome = "applied" | "known" | "gap";

/**
 * The order book of one market, kept by applying the updates of a depth stream. It does no I/O; clients use it as it
 * is. See docs/depth-stream.md.
 */
export class DepthBook {
  readonly #buy = new PriceLadder<DepthLevel>(sides.buy);
  readonly #sell = new PriceLadder<DepthLevel>(sides.sell);
  #sequenceNumber: bigint | undefined;

  /** An empty book that waits for a whole book. */
  constructor(readonly marketId: string) {}

  /** Starts from a depth response instead of a stream's whole book. @throws Error if it is of another market */
  static fromDepth(depth: Omit<DepthUpdate, "previousSequenceNumber">): DepthBook {
    const book = new DepthBook(depth.marketId);
    book.apply({ ...depth, previousSequenceNumber: 0n });
    return book;
  }

  /** The sequence number of the newest update; undefined before the first. */
  get sequenceNumber(): bigint | undefined {
    return this.#sequenceNumber;
  }

  /** By price, descending. Valid until the next update. */
  get buy(): readonly DepthLevel[] {
    return this.#buy.levels;
  }

  /** By price, ascending. Valid until the next update. */
  get sell(): readonly DepthLevel[] {
    return this.#sell.levels;
  }

  /** The highest level on the buy side. */
  get bestBid(): DepthLevel | undefined {
    return this.#buy.levels[0];
  }

  /** The lowest level on the sell side. */
  get bestOffer(): DepthLevel | undefined {
    return this.#sell.levels[0];
  }

  /**
   * Applies an update. With previous sequence number 0 it is the whole book. Otherwise it holds changed levels, and
   * applies if previousSequenceNumber ≤ the book's < sequenceNumber.
   * @throws Error if it is of another market
   */
  apply(update: DepthUpdate): FoldOutcome {
    if (update.marketId !== this.marketId) {
      throw new Error(`an update of market ${update.marketId} does not belong into the book of ${this.marketId}`);
    }
    const held = this.#sequenceNumber;
    if (held !== undefined && update.sequenceNumber <= held) return "known";
    if (update.previousSequenceNumber === 0n) {
      this.#buy.replace(update.buy.filter((level) => !isGone(level)));
      this.#sell.replace(update.sell.filter((level) => !isGone(level)));
    } else {
      if (held === undefined || update.previousSequenceNumber > held) return "gap";
      for (const level of update.buy) setLevel(this.#buy, level);
      for (const level of update.sell) setLevel(this.#sell, level);
    }
    this.#sequenceNumber = update.sequenceNumber;
    return "applied";
  }
}

/** Whether a level vanished. */
export function isGone({ volume, numberOfOrders }: Pick<DepthLevel, "volume" | "numberOfOrders">): boolean {
  return volume === 0n && numberOfOrders === 0n;
}

function setLevel(ladder: PriceLadder<DepthLevel>, level: DepthLevel): void {
  if (isGone(level)) ladder.delete(level.price);
  else ladder.set(level);
}
