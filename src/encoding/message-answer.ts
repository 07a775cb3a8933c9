import { type DescMessage, fromBinary, isMessage, type MessageShape } from "@bufbuild/protobuf";
import type { Answer, Form } from "../domain/answer.js";
import type { Metadata } from "../domain/metadata.js";
import { encodeBinary } from "./binary-encoder.js";
import type { Encodable } from "./field-values.js";
import { encodeJson } from "./json-encoder.js";

/** What answers have in common: each encoding is made when it is first asked for, and kept. */
export abstract class CachedAnswer<S extends DescMessage> implements Answer<S> {
  readonly schema: S;
  readonly version: string | undefined;
  readonly eventId: string | undefined;
  #message: MessageShape<S> | undefined;
  #binary: Uint8Array | undefined;
  #json: Uint8Array | undefined;
  #forms: Map<Form, Uint8Array> | undefined;

  constructor(schema: S, version?: string, eventId?: string) {
    this.schema = schema;
    this.version = version;
    this.eventId = eventId;
  }

  protected abstract encodeBinary(): Uint8Array;
  protected abstract encodeJson(): string;

  message(): MessageShape<S> {
    this.#message ??= fromBinary(this.schema, this.binary());
    return this.#message;
  }

  binary(): Uint8Array {
    this.#binary ??= this.encodeBinary();
    return this.#binary;
  }

  json(): Uint8Array {
    this.#json ??= Buffer.from(this.encodeJson());
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

/** What goes with a message in an answer; see {@link Answer}. */
export type AnswerParts = Partial<Pick<Answer, "version" | "eventId" | "metadata">>;

/** An {@link Answer} made from a message, or from a plain object with its fields. */
export class MessageAnswer<S extends DescMessage> extends CachedAnswer<S> {
  readonly metadata: Metadata | undefined;
  readonly #fields: Encodable<S>;

  constructor(schema: S, fields: Encodable<S>, parts: AnswerParts = {}) {
    super(schema, parts.version, parts.eventId);
    this.#fields = fields;
    this.metadata = parts.metadata;
  }

  override message(): MessageShape<S> {
    return isMessage(this.#fields, this.schema) ? this.#fields : super.message();
  }

  protected override encodeBinary(): Uint8Array {
    return encodeBinary(this.schema, this.#fields);
  }

  protected override encodeJson(): string {
    return encodeJson(this.schema, this.#fields);
  }
}
