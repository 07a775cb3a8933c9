import { ChecksumAlgorithm } from "../../gen/marketd/events/v1/venue_pb.js";
import { Side } from "../../gen/vega/vega_pb.js";
import { type Converter, decimalsOf, type ReceivedFrame, type VenueEventInit } from "./recording.js";

type Level = readonly [price: string, size: string, ...rest: string[]];
type Trade = readonly [price: string, size: string, time: string, side: "b" | "s", ...rest: string[]];

/** Parts of a book frame: `as` and `bs` are a snapshot's sides, `a` and `b` those of a delta. */
interface BookPart {
  readonly as?: readonly Level[];
  readonly bs?: readonly Level[];
  readonly a?: readonly Level[];
  readonly b?: readonly Level[];
  /** The checksum of the book after a delta. */
  readonly c?: string;
}

/**
 * Kraken's `book` and `trade` channels, version 1. Updates have no numbers; checksums find what is wrong. A book has as
 * many levels as were subscribed to, and the venue does not tell when one falls off.
 */
export class Kraken implements Converter {
  readonly #defined = new Set<string>();

  convert({ json }: ReceivedFrame): readonly VenueEventInit[] {
    if (!Array.isArray(json)) return [];
    const frame: readonly unknown[] = json;
    const [channel, marketId] = frame.slice(-2).map(String);
    const parts = frame.slice(1, -2);
    if (channel === undefined || marketId === undefined) return [];
    if (channel === "trade") return this.#trades(marketId, parts.flat() as Trade[]);
    const depthMax = /^book-(\d+)$/.exec(channel)?.[1];
    if (depthMax === undefined) return [];
    const book: BookPart = Object.assign({}, ...parts);
    return book.as === undefined && book.bs === undefined
      ? [this.#delta(marketId, book)]
      : this.#snapshot(marketId, Number(depthMax), book);
  }

  #snapshot(marketId: string, depthMax: number, { as = [], bs = [] }: BookPart): VenueEventInit[] {
    const [price = "0", size = "0"] = as[0] ?? bs[0] ?? [];
    this.#defined.add(marketId);
    return [
      {
        case: "marketDefinition",
        value: {
          marketId,
          code: marketId,
          name: `Kraken ${marketId}`,
          tags: ["venue:kraken", `quote:${marketId.split("/")[1] ?? ""}`],
          // All prices and sizes of a pair are sent with the same decimals.
          priceDecimals: decimalsOf(price),
          sizeDecimals: decimalsOf(size),
          depthMax,
          checksumAlgorithm: ChecksumAlgorithm.CRC32_OF_10,
        },
      },
      { case: "bookSnapshot", value: { marketId, bids: levels(bs), asks: levels(as) } },
    ];
  }

  #delta(marketId: string, { a, b, c }: BookPart): VenueEventInit {
    const checksum = c === undefined ? {} : { checksum: Number(c) };
    return { case: "bookDelta", value: { marketId, bids: levels(b), asks: levels(a), ...checksum } };
  }

  #trades(marketId: string, trades: readonly Trade[]): VenueEventInit[] {
    if (!this.#defined.has(marketId)) return [];
    return trades.map(([price, size, , side]) => ({
      case: "trade",
      value: { marketId, price, size, aggressor: side === "b" ? Side.BUY : Side.SELL },
    }));
  }
}

function levels(sent: readonly Level[] = []) {
  return sent.map(([price, size]) => ({ price, size }));
}
