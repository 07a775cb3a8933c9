import { ChecksumAlgorithm } from "../../gen/marketd/events/v1/venue_pb.js";
import { Side } from "../../gen/vega/vega_pb.js";
import { type Converter, checksumBits, type ReceivedFrame, type VenueEventInit } from "./recording.js";

type Level = readonly [price: string, size: string, deprecated: string, orders: string];

interface Book {
  readonly asks: readonly Level[];
  readonly bids: readonly Level[];
  readonly checksum: string;
}

interface Trade {
  readonly tradeId: string;
  readonly px: string;
  readonly sz: string;
  readonly side: "buy" | "sell";
}

interface Frame {
  readonly arg?: { readonly channel: string; readonly instId: string };
  readonly action?: "snapshot" | "update";
  readonly data?: readonly unknown[];
}

/**
 * Decimals of prices and sizes. The venue sends numbers without trailing zeros; what they can have is in `tickSz` and
 * `lotSz` of `GET /api/v5/public/instruments`.
 */
const decimals: Readonly<Record<string, readonly [price: number, size: number]>> = {
  "BTC-USD-220527": [1, 0],
  "BTC-USDT": [1, 8],
  "UNI-USD-SWAP": [3, 0],
};

/** OKX's `books` and `trades` channels. Checksums find what is wrong, and levels tell their number of orders. */
export class Okx implements Converter {
  readonly #defined = new Set<string>();

  convert({ json }: ReceivedFrame): readonly VenueEventInit[] {
    const { arg, action, data } = json as Frame;
    if (arg === undefined || data === undefined) return [];
    const marketId = arg.instId;
    if (arg.channel === "trades") return this.#defined.has(marketId) ? trades(marketId, data as Trade[]) : [];
    if (arg.channel !== "books") return [];
    const books = (data as Book[]).map(({ asks, bids, checksum }) => ({
      marketId,
      bids: levels(bids),
      asks: levels(asks),
      checksum: checksumBits(checksum),
    }));
    if (action === "update") return books.map((value) => ({ case: "bookDelta", value }));
    this.#defined.add(marketId);
    return [definition(marketId), ...books.map((value) => ({ case: "bookSnapshot" as const, value }))];
  }
}

function definition(marketId: string): VenueEventInit {
  const [priceDecimals, sizeDecimals] = decimals[marketId] ?? [];
  if (priceDecimals === undefined || sizeDecimals === undefined)
    throw new Error(`no decimals are known of ${marketId}`);
  return {
    case: "marketDefinition",
    value: {
      marketId,
      code: marketId,
      name: `OKX ${marketId}`,
      tags: ["venue:okx"],
      priceDecimals,
      sizeDecimals,
      checksumAlgorithm: ChecksumAlgorithm.CRC32_OF_25_SHORTEST,
    },
  };
}

function levels(sent: readonly Level[]) {
  return sent.map(([price, size, , orders]) => ({ price, size, numberOfOrders: BigInt(orders) }));
}

function trades(marketId: string, sent: readonly Trade[]): VenueEventInit[] {
  return sent.map(({ tradeId, px, sz, side }) => ({
    case: "trade",
    value: { marketId, id: tradeId, price: px, size: sz, aggressor: side === "buy" ? Side.BUY : Side.SELL },
  }));
}
