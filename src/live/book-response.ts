import type { DescMessage } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import type { Codec } from "../domain/encoded-response.js";
import type { Metadata } from "../domain/metadata.js";
import { encodeBinary } from "../encoding/binary-encoder.js";
import type { Encodable } from "../encoding/field-values.js";
import { encodeJson } from "../encoding/json-encoder.js";
import { CachedResponse, type ResponseParts } from "../encoding/message-response.js";
import type { EncodedLevels } from "./encoded-levels.js";
import type { Envelope } from "./segment-response.js";

/** A message with many levels: `vega.MarketDepthUpdate`, or a depth response. */
export interface BookMessage {
  readonly schema: DescMessage;
  readonly marketId: string;
  readonly levels: EncodedLevels;
  /** Levels on each side, at most. */
  readonly levelsMax: number;
  /** The fields behind the levels. */
  readonly rest: Readonly<Record<string, unknown>>;
}

const emptySides = '"buy":[],"sell":[]';

/** A response that consists of one {@link BookMessage}, or of an envelope with one. */
export class BookResponse<S extends DescMessage> extends CachedResponse<S> {
  readonly metadata: Metadata | undefined;
  readonly #book: BookMessage;
  readonly #envelope: Envelope<S> | undefined;
  readonly #parts: ResponseParts;
  #json: Uint8Array | undefined;

  constructor(schema: S, book: BookMessage, parts: ResponseParts = {}, envelope?: Envelope<S>) {
    super(schema, parts.version, parts.eventId);
    this.metadata = parts.metadata;
    this.#book = book;
    this.#parts = parts;
    this.#envelope = envelope;
  }

  /** The same response with metadata of its own. */
  with(metadata: Metadata): BookResponse<S> {
    return new BookResponse(this.schema, this.#book, { ...this.#parts, metadata }, this.#envelope);
  }

  prepare(codec: Codec, client: string): Promise<void> | undefined {
    return this.#book.levels.prepare(codec, this.#book.levelsMax, client);
  }

  override binaryBehind(headBytes: number): Buffer {
    return Buffer.concat([Buffer.alloc(headBytes), ...this.#binaryPieces()]);
  }

  override json(): Uint8Array {
    this.#json ??= Buffer.concat(this.#jsonPieces());
    return this.#json;
  }

  override jsonText(): string {
    return Buffer.from(this.json()).toString();
  }

  protected override encodeBinary(): Uint8Array {
    return Buffer.concat(this.#binaryPieces());
  }

  #jsonPieces(): Uint8Array[] {
    const { schema, marketId, levels, levelsMax, rest } = this.#book;
    const text = encodeJson(schema, { marketId, ...rest } as Encodable<DescMessage>);
    const at = text.indexOf(emptySides);
    const { open = "", close = "" } = this.#envelope ?? {};
    return [
      Buffer.from(`${open}${text.slice(0, at)}"buy":[`),
      ...levels.bytes("json", "buy", levelsMax),
      Buffer.from('],"sell":['),
      ...levels.bytes("json", "sell", levelsMax),
      Buffer.from(`]${text.slice(at + emptySides.length)}${close}`),
    ];
  }

  #binaryPieces(): Uint8Array[] {
    const { schema, marketId, levels, levelsMax, rest } = this.#book;
    const pieces = [
      encodeBinary(schema, { marketId } as Encodable<DescMessage>),
      ...levels.bytes("proto", "buy", levelsMax),
      ...levels.bytes("proto", "sell", levelsMax),
      encodeBinary(schema, rest as Encodable<DescMessage>),
    ];
    if (this.#envelope === undefined) return pieces;
    const bytes = pieces.reduce((sum, piece) => sum + piece.length, 0);
    const head = new BinaryWriter().tag(1, WireType.LengthDelimited).uint32(bytes).finish();
    const { rest: others } = this.#envelope;
    return others === undefined ? [head, ...pieces] : [head, ...pieces, others];
  }
}
