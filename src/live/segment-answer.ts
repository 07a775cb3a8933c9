import { type DescMessage, fromBinary, type MessageShape, toJsonString } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { type Answer, type Form, jsonWriteOptions } from "../domain/answer.js";

/** What knows its encodings without being a message. */
export interface Encoder {
  binary(): Uint8Array;
  json(): string;
}

/**
 * One message that several answers contain: encoded at most once per encoding, however many answers and readers share
 * it.
 */
export class Segment {
  readonly #encoder: Encoder;
  #field: Uint8Array | undefined;
  #json: string | undefined;

  /** What the encoder encodes, nobody changes any more. */
  constructor(encoder: Encoder) {
    this.#encoder = encoder;
  }

  /** From protobuf bytes; they are served as they are, and decoded only if JSON is asked for. */
  static ofBinary(schema: DescMessage, body: Uint8Array): Segment {
    return new Segment({
      binary: () => body,
      json: () => toJsonString(schema, fromBinary(schema, body), jsonWriteOptions),
    });
  }

  /** As field 1 of the message around it: tag, length, bytes. */
  field(): Uint8Array {
    this.#field ??= new BinaryWriter().tag(1, WireType.LengthDelimited).bytes(this.#encoder.binary()).finish();
    return this.#field;
  }

  json(): string {
    this.#json ??= this.#encoder.json();
    return this.#json;
  }
}

/** A message whose only field is number 1, and the JSON around that field's values. */
export interface Envelope<S extends DescMessage> {
  readonly schema: S;
  readonly open: string;
  readonly close: string;
}

/** An {@link Answer} put together from segments that it shares with other answers. */
export class SegmentAnswer<S extends DescMessage> implements Answer<S> {
  readonly schema: S;
  readonly version: string | undefined;
  readonly eventId: string | undefined;
  readonly #envelope: Envelope<S>;
  readonly #segments: readonly Segment[];
  #message: MessageShape<S> | undefined;
  #binary: Uint8Array | undefined;
  #json: Uint8Array | undefined;
  #forms: Map<Form, Uint8Array> | undefined;

  constructor(envelope: Envelope<S>, segments: readonly Segment[], version?: string, eventId?: string) {
    this.schema = envelope.schema;
    this.version = version;
    this.eventId = eventId;
    this.#envelope = envelope;
    this.#segments = segments;
  }

  message(): MessageShape<S> {
    this.#message ??= fromBinary(this.schema, this.binary());
    return this.#message;
  }

  binary(): Uint8Array {
    if (this.#binary === undefined) {
      const [first] = this.#segments;
      const alone = this.#segments.length === 1 && first !== undefined;
      this.#binary = alone ? first.field() : Buffer.concat(this.#segments.map((segment) => segment.field()));
    }
    return this.#binary;
  }

  json(): Uint8Array {
    if (this.#json === undefined) {
      const { open, close } = this.#envelope;
      this.#json = Buffer.from(open + this.#segments.map((segment) => segment.json()).join(",") + close);
    }
    return this.#json;
  }

  as(form: Form): Uint8Array {
    this.#forms ??= new Map();
    let bytes = this.#forms.get(form);
    if (bytes === undefined) {
      bytes = form.encode(this);
      this.#forms.set(form, bytes);
    }
    return bytes;
  }
}
