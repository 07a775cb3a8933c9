import { ChecksumAlgorithm } from "../../gen/marketd/events/v1/venue_pb.js";
import { Side } from "../../gen/vega/vega_pb.js";
import { type Converter, checksumBits, decimalsOf, type ReceivedFrame, type VenueEventInit } from "./recording.js";

type Level = readonly [price: string, size: string];
type Trade = readonly [time: string, price: string, size: string, side: "buy" | "sell"];

interface Book {
  readonly asks: readonly Level[];
  readonly bids: readonly Level[];
  readonly checksum: string;
}

interface Frame {
  readonly arg?: { readonly channel: string; readonly instId: string };
  readonly action?: "snapshot" | "update";
  readonly data?: readonly unknown[];
}

/** Bitget's `books` and `trade` channels, spot. Checksums find what is wrong. */
export class Bitget implements Converter {
  readonly #defined = new Set<string>();

  convert({ json }: ReceivedFrame): readonly VenueEventInit[] {
    const { arg, action, data } = json as Frame;
    if (arg === undefined || data === undefined) return [];
    const marketId = arg.instId;
    if (arg.channel === "trade") return this.#defined.has(marketId) ? trades(marketId, data as Trade[]) : [];
    if (arg.channel !== "books") return [];
    const books = data as Book[];
    const updates = books.map(({ asks, bids, checksum }) => ({
      marketId,
      bids: levels(bids),
      asks: levels(asks),
      checksum: checksumBits(checksum),
    }));
    if (action === "update") return updates.map((value) => ({ case: "bookDelta", value }));
    this.#defined.add(marketId);
    return [definition(marketId, books), ...updates.map((value) => ({ case: "bookSnapshot" as const, value }))];
  }
}

/** All prices and sizes of a market are sent with the same decimals, but for the 0 of a level that is gone. */
function definition(marketId: string, books: readonly Book[]): VenueEventInit {
  const sent = books.flatMap(({ asks, bids }) => [...asks, ...bids]);
  return {
    case: "marketDefinition",
    value: {
      marketId,
      code: marketId,
      name: `Bitget ${marketId}`,
      tags: ["venue:bitget"],
      priceDecimals: Math.max(0, ...sent.map(([price]) => decimalsOf(price))),
      sizeDecimals: Math.max(0, ...sent.map(([, size]) => decimalsOf(size))),
      checksumAlgorithm: ChecksumAlgorithm.CRC32_OF_25,
    },
  };
}

function levels(sent: readonly Level[]) {
  return sent.map(([price, size]) => ({ price, size }));
}

/** The newest is sent first. */
function trades(marketId: string, sent: readonly Trade[]): VenueEventInit[] {
  return sent.toReversed().map(([, price, size, side]) => ({
    case: "trade",
    value: { marketId, price, size, aggressor: side === "buy" ? Side.BUY : Side.SELL },
  }));
}
