import { MarketDepthUpdateSchema, PriceLevelSchema } from "../../gen/vega/vega_pb.js";
import type { DepthLevel } from "../domain/depth-book.js";
import type { Codec } from "../domain/encoded-response.js";
import type { Levels } from "../domain/tracked-book.js";
import { WorkPacer } from "../domain/work-pacer.js";
import { encodeBinary } from "../encoding/binary-encoder.js";
import { encodeJson } from "../encoding/json-encoder.js";

/** Messages of more levels are encoded in turns of the event loop: fewer take a few milliseconds. */
export const levelsAtOnceMax = 4_096;

/** Levels that are encoded in one turn: about a millisecond. */
const pieceLevels = 1_024;

const bookSides = ["buy", "sell"] as const;

/** One for the process: large books have their turns one after the other, and so have their clients. */
const pacer = new WorkPacer();

/**
 * The levels of a large book as bytes. They are encoded from the best on, as far as they are needed, and shared by all
 * responses of the same levels: a depth response of any `maxDepth`, and the stream's whole book, whose fields for levels
 * have the same numbers and names.
 */
export class EncodedLevels {
  readonly #levels: Levels;
  readonly #pieces: Record<Codec, Record<"buy" | "sell", Buffer[]>> = {
    json: { buy: [], sell: [] },
    proto: { buy: [], sell: [] },
  };

  /** Copies the lists; the levels themselves must not be changed. */
  constructor({ buy, sell }: Levels) {
    this.#levels = { buy: buy.slice(), sell: sell.slice() };
  }

  /**
   * Encodes the first `most` levels of each side in turns of the event loop, which clients take by their quota keys.
   * Undefined: they are there, or few enough to be encoded at once.
   */
  prepare(codec: Codec, most: number, client: string): Promise<void> | undefined {
    const missing = bookSides.reduce((sum, side) => sum + this.#missing(codec, side, most), 0);
    if (missing * pieceLevels <= levelsAtOnceMax) return undefined;
    return new Promise((resolve, reject) => {
      const encodeNext = () => {
        try {
          const side = bookSides.find((each) => this.#missing(codec, each, most) > 0);
          if (side === undefined) return resolve();
          this.#addPiece(codec, side);
          pacer.push(encodeNext, 0, client);
        } catch (thrown) {
          reject(thrown);
        }
      };
      pacer.push(encodeNext, 0, client);
    });
  }

  /** The first `most` levels of a side: the elements of its list in JSON, or its fields in protobuf. */
  bytes(codec: Codec, side: "buy" | "sell", most: number): Buffer[] {
    while (this.#missing(codec, side, most) > 0) this.#addPiece(codec, side);
    const whole = Math.floor(Math.min(most, this.#levels[side].length) / pieceLevels);
    const rest = this.#levels[side].slice(whole * pieceLevels, most);
    const pieces = this.#pieces[codec][side].slice(0, whole);
    return rest.length === 0 ? pieces : [...pieces, encodePiece(codec, side, rest, whole === 0)];
  }

  /** Whole pieces that are not encoded yet. What is left of a side is encoded for each response. */
  #missing(codec: Codec, side: "buy" | "sell", most: number): number {
    const wanted = Math.floor(Math.min(most, this.#levels[side].length) / pieceLevels);
    return Math.max(0, wanted - this.#pieces[codec][side].length);
  }

  #addPiece(codec: Codec, side: "buy" | "sell"): void {
    const pieces = this.#pieces[codec][side];
    const start = pieces.length * pieceLevels;
    pieces.push(encodePiece(codec, side, this.#levels[side].slice(start, start + pieceLevels), start === 0));
  }
}

function encodePiece(codec: Codec, side: "buy" | "sell", levels: readonly DepthLevel[], isFirst: boolean): Buffer {
  if (codec === "proto") return encodeBinary(MarketDepthUpdateSchema, { [side]: levels });
  const text = levels.map((level) => encodeJson(PriceLevelSchema, level)).join(",");
  return Buffer.from(isFirst ? text : `,${text}`);
}
