import { Side } from "../../gen/vega/vega_pb.js";
import { type Converter, decimalsOf, type ReceivedFrame, type VenueEventInit } from "./recording.js";

type Level = readonly [price: string, size: string];

/** `GET /api/v3/depth` */
interface Snapshot {
  readonly lastUpdateId: string;
  readonly bids: readonly Level[];
  readonly asks: readonly Level[];
}

/** Updates `U` to `u` of a book. */
interface DepthUpdate {
  readonly e: "depthUpdate";
  readonly s: string;
  readonly U: string;
  readonly u: string;
  readonly b: readonly Level[];
  readonly a: readonly Level[];
}

interface AggregateTrade {
  readonly e: "aggTrade";
  readonly s: string;
  readonly a: string;
  readonly p: string;
  readonly q: string;
  /** Whether the buyer's order rested. */
  readonly m: boolean;
}

/**
 * Binance's `depth` and `aggTrade` streams with its REST snapshots. Updates are numbered. A snapshot is answered later
 * than it was taken, so the updates that came before it are held back and written after it: the loader skips those that
 * the snapshot has.
 */
export class Binance implements Converter {
  /** Updates of markets without a snapshot. */
  readonly #held = new Map<string, VenueEventInit[]>();
  readonly #defined = new Set<string>();

  convert({ url, json }: ReceivedFrame): readonly VenueEventInit[] {
    if (url !== "") return this.#snapshot(new URL(url).searchParams.get("symbol") ?? "", json as Snapshot);
    const { data } = json as { readonly data?: DepthUpdate | AggregateTrade | { readonly e?: undefined } };
    if (data?.e === "depthUpdate") return this.#update(data);
    if (data?.e === "aggTrade" && this.#defined.has(data.s)) return [trade(data)];
    return [];
  }

  #snapshot(marketId: string, { lastUpdateId, bids, asks }: Snapshot): VenueEventInit[] {
    const held = this.#held.get(marketId) ?? [];
    this.#held.delete(marketId);
    this.#defined.add(marketId);
    const [price = "0", size = "0"] = bids[0] ?? asks[0] ?? [];
    const priceDecimals = decimalsOf(price);
    const sizeDecimals = decimalsOf(size);
    const definition = { marketId, code: marketId, name: `Binance ${marketId}`, tags: ["venue:binance"] };
    const sequenceNumber = BigInt(lastUpdateId);
    return [
      { case: "marketDefinition", value: { ...definition, priceDecimals, sizeDecimals } },
      { case: "bookSnapshot", value: { marketId, bids: levels(bids), asks: levels(asks), sequenceNumber } },
      ...held,
    ];
  }

  #update({ s: marketId, U, u, b, a }: DepthUpdate): VenueEventInit[] {
    const delta: VenueEventInit = {
      case: "bookDelta",
      value: {
        marketId,
        bids: levels(b),
        asks: levels(a),
        previousSequenceNumber: BigInt(U) - 1n,
        sequenceNumber: BigInt(u),
      },
    };
    if (this.#defined.has(marketId)) return [delta];
    this.#held.set(marketId, [...(this.#held.get(marketId) ?? []), delta]);
    return [];
  }
}

function levels(sent: readonly Level[]) {
  return sent.map(([price, size]) => ({ price, size }));
}

function trade({ s: marketId, a: id, p: price, q: size, m }: AggregateTrade): VenueEventInit {
  return { case: "trade", value: { marketId, id, price, size, aggressor: m ? Side.SELL : Side.BUY } };
}
