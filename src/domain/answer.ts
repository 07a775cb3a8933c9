import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { createRegistry, toBinary, toJsonString } from "@bufbuild/protobuf";
import { StructSchema } from "@bufbuild/protobuf/wkt";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.js";
import type { Metadata } from "./metadata.js";

/** The message types that may travel inside a `google.protobuf.Any`: error details and the export's extensions. */
export const anyRegistry = createRegistry(StructSchema, BadRequestSchema, ErrorInfoSchema, RetryInfoSchema);

/** The JSON of every answer: unset scalars, lists and enums of implicit presence are written out. */
export const jsonWriteOptions = { alwaysEmitImplicit: true, registry: anyRegistry } as const;

/**
 * A way to wrap an answer's bytes for one protocol (a gRPC frame, a JSON line, an SSE event).
 * It is a constant: an answer remembers the outcome under this very object.
 */
export interface Form {
  /** For logs and tests. */
  readonly name: string;
  encode(answer: Answer): Uint8Array;
}

/**
 * A value that encodes itself at most once per encoding, so that all who ask for the same version share its bytes.
 * Nobody may change the message or the bytes.
 */
export interface Answer<S extends DescMessage = DescMessage> {
  readonly schema: S;
  /** Same version, same content, from every process on the same database; undefined: not worth an ETag. */
  readonly version: string | undefined;
  /** In a stream of events, the id of this one (the block height, decimal). */
  readonly eventId: string | undefined;
  /** What goes with the answer to a unary call. The HTTP API sends the headers only; streams ignore it. */
  readonly metadata?: Metadata | undefined;
  message(): MessageShape<S>;
  /** Protobuf bytes, without any frame. */
  binary(): Uint8Array;
  /** UTF-8 JSON bytes, without any frame. */
  json(): Uint8Array;
  /** The bytes in a protocol's form. */
  as(form: Form): Uint8Array;
}

/** An {@link Answer} made from a message. */
export class MessageAnswer<S extends DescMessage> implements Answer<S> {
  readonly schema: S;
  readonly version: string | undefined;
  readonly eventId: string | undefined;
  readonly #message: MessageShape<S>;
  #binary: Uint8Array | undefined;
  #json: Uint8Array | undefined;
  #forms: Map<Form, Uint8Array> | undefined;

  constructor(schema: S, message: MessageShape<S>, version?: string, eventId?: string) {
    this.schema = schema;
    this.version = version;
    this.eventId = eventId;
    this.#message = message;
  }

  message(): MessageShape<S> {
    return this.#message;
  }

  binary(): Uint8Array {
    this.#binary ??= toBinary(this.schema, this.#message);
    return this.#binary;
  }

  json(): Uint8Array {
    this.#json ??= Buffer.from(toJsonString(this.schema, this.#message, jsonWriteOptions));
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
