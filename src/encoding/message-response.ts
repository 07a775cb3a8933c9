import { type DescMessage, fromBinary, fromJsonString, isMessage, type MessageShape } from "@bufbuild/protobuf";
import type { Codec, CompressedBytes, EncodedResponse, Encoding } from "../domain/encoded-response.js";
import type { Metadata } from "../domain/metadata.js";
import { encodeBinary } from "./binary-encoder.js";
import type { Encodable } from "./field-values.js";
import { encodeJson } from "./json-encoder.js";

/** The id of an event in an event stream, or how to make it: only one of the encodings has ids. */
export type EventId = string | (() => string);

/** The base of responses: each encoding is made on first use, and kept. */
export abstract class CachedResponse<S extends DescMessage> implements EncodedResponse<S> {
  readonly schema: S;
  readonly version: string | undefined;
  readonly #eventId: EventId | undefined;
  #message: MessageShape<S> | undefined;
  #binary: Uint8Array | undefined;
  #json: Uint8Array | undefined;
  #encodings: Map<Encoding<CompressedBytes>, CompressedBytes> | undefined;

  constructor(schema: S, version?: string, eventId?: EventId) {
    this.schema = schema;
    this.version = version;
    this.#eventId = eventId;
  }

  get eventId(): string | undefined {
    return typeof this.#eventId === "function" ? this.#eventId() : this.#eventId;
  }

  protected abstract encodeBinary(): Uint8Array;
  abstract jsonText(): string;

  message(): MessageShape<S> {
    this.#message ??= fromBinary(this.schema, this.binary());
    return this.#message;
  }

  binary(): Uint8Array {
    this.#binary ??= this.encodeBinary();
    return this.#binary;
  }

  binaryBehind(headBytes: number): Buffer {
    const bytes = this.binary();
    const framed = Buffer.allocUnsafeSlow(headBytes + bytes.length);
    framed.set(bytes, headBytes);
    return framed;
  }

  json(): Uint8Array {
    this.#json ??= Buffer.from(this.jsonText());
    return this.#json;
  }

  encode<Bytes extends CompressedBytes>(encoding: Encoding<Bytes>): Bytes {
    this.#encodings ??= new Map();
    const encodings = this.#encodings;
    const known = encodings.get(encoding);
    if (known !== undefined) return known as Bytes;
    const bytes = encoding.encode(this);
    encodings.set(encoding, bytes);
    if (bytes instanceof Promise) {
      bytes.then(
        (ready) => encodings.set(encoding, ready),
        () => encodings.delete(encoding),
      );
    }
    return bytes;
  }
}

/** Version, event id and metadata of a response; see {@link EncodedResponse}. */
export type ResponseParts = Partial<Pick<EncodedResponse, "version" | "metadata">> & {
  readonly eventId?: EventId | undefined;
};

/** An {@link EncodedResponse} of a message, or of a plain object with its fields. */
export class MessageResponse<S extends DescMessage> extends CachedResponse<S> {
  readonly metadata: Metadata | undefined;
  readonly #fields: Encodable<S>;

  constructor(schema: S, fields: Encodable<S>, parts: ResponseParts = {}) {
    super(schema, parts.version, parts.eventId);
    this.#fields = fields;
    this.metadata = parts.metadata;
  }

  override message(): MessageShape<S> {
    return isMessage(this.#fields, this.schema) ? this.#fields : super.message();
  }

  override binaryBehind(headBytes: number): Buffer {
    return encodeBinary(this.schema, this.#fields, headBytes);
  }

  override jsonText(): string {
    return encodeJson(this.schema, this.#fields);
  }

  protected override encodeBinary(): Uint8Array {
    return encodeBinary(this.schema, this.#fields);
  }
}

/**
 * A response for one reader. It is encoded at once and keeps only the bytes: a message that waits reaches V8's old
 * generation, and the texts that its encoding leaves behind would follow.
 */
export class ReadyResponse<S extends DescMessage> extends CachedResponse<S> {
  readonly #codec: Codec;
  /** The message in its codec. */
  readonly bytes: Uint8Array;

  constructor(response: EncodedResponse<S>, codec: Codec) {
    super(response.schema, response.version, response.eventId);
    this.#codec = codec;
    this.bytes = codec === "json" ? response.json() : response.binary();
  }

  override message(): MessageShape<S> {
    return this.#codec === "json" ? fromJsonString(this.schema, this.jsonText()) : super.message();
  }

  /** Not kept: its reader asks once. */
  override encode<Bytes extends CompressedBytes>(encoding: Encoding<Bytes>): Bytes {
    return encoding.encode(this);
  }

  override json(): Uint8Array {
    return this.#codec === "json" ? this.bytes : super.json();
  }

  override jsonText(): string {
    return this.#codec === "json" ? Buffer.from(this.bytes).toString() : encodeJson(this.schema, this.message());
  }

  protected override encodeBinary(): Uint8Array {
    return this.#codec === "json" ? encodeBinary(this.schema, this.message()) : this.bytes;
  }
}
