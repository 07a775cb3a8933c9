import { type DescMessage, fromBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { encodeBinary } from "../encoding/binary-encoder.js";
import type { Encodable } from "../encoding/field-values.js";
import { encodeJson } from "../encoding/json-encoder.js";
import { CachedResponse, type EventId } from "../encoding/message-response.js";

/** A message that several responses contain. It is encoded at most once per encoding. */
export class Segment {
  #field: Uint8Array | undefined;
  #json: string | undefined;

  private constructor(
    private readonly binary: () => Uint8Array,
    private readonly makeJson: () => string,
  ) {}

  /** From a message, or a plain object with its fields. It must not be changed afterwards. */
  static of<S extends DescMessage>(schema: S, fields: Encodable<S>): Segment {
    return new Segment(
      () => encodeBinary(schema, fields),
      () => encodeJson(schema, fields),
    );
  }

  /** From protobuf bytes, which are served as they are and decoded only for JSON. */
  static ofBinary<S extends DescMessage>(schema: S, body: Uint8Array): Segment {
    return new Segment(
      () => body,
      () => encodeJson(schema, fromBinary(schema, body) as Encodable<S>),
    );
  }

  /** From a response that is a part of another one. */
  static from(response: { binary(): Uint8Array; jsonText(): string }): Segment {
    return new Segment(
      () => response.binary(),
      () => response.jsonText(),
    );
  }

  /** The bytes as field 1 of the enclosing message: tag, length, content. */
  field(): Uint8Array {
    this.#field ??= new BinaryWriter().tag(1, WireType.LengthDelimited).bytes(this.binary()).finish();
    return this.#field;
  }

  json(): string {
    this.#json ??= this.makeJson();
    return this.#json;
  }
}

/** A message whose first field is number 1, and the JSON around the values of that field. */
export interface Envelope<S extends DescMessage> {
  readonly schema: S;
  readonly open: string;
  readonly close: string;
  /** Its other fields, encoded; undefined: it has none. */
  readonly rest?: Uint8Array;
}

/** A response composed of segments that it shares with other responses. */
export class SegmentResponse<S extends DescMessage> extends CachedResponse<S> {
  readonly #envelope: Envelope<S>;
  readonly #segments: readonly Segment[];

  constructor(envelope: Envelope<S>, segments: readonly Segment[], version?: string, eventId?: EventId) {
    super(envelope.schema, version, eventId);
    this.#envelope = envelope;
    this.#segments = segments;
  }

  protected override encodeBinary(): Uint8Array {
    const [first] = this.#segments;
    const { rest } = this.#envelope;
    if (this.#segments.length === 1 && first !== undefined && rest === undefined) return first.field();
    const fields = this.#segments.map((segment) => segment.field());
    return Buffer.concat(rest === undefined ? fields : [...fields, rest]);
  }

  override jsonText(): string {
    const { open, close } = this.#envelope;
    return open + this.#segments.map((segment) => segment.json()).join(",") + close;
  }
}
