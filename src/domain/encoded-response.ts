import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import type { Metadata } from "./metadata.js";

/**
 * A way to wrap a response's bytes for one protocol (a gRPC frame, a JSON line, an SSE event).
 * It is a constant: a response remembers the outcome under this very object.
 */
export interface Encoding {
  /** For logs and tests. */
  readonly name: string;
  encode(response: EncodedResponse): Uint8Array;
}

/**
 * A value that encodes itself at most once per encoding, so that all who ask for the same version share its bytes.
 * Nobody may change the message or the bytes.
 */
export interface EncodedResponse<S extends DescMessage = DescMessage> {
  readonly schema: S;
  /** Same version, same content, from every process on the same database; undefined: not worth an ETag. */
  readonly version: string | undefined;
  /** In a stream of events, the id of this one (the block height, decimal). */
  readonly eventId: string | undefined;
  /** What goes with the response to a unary call. The HTTP API sends the headers only; streams ignore it. */
  readonly metadata?: Metadata | undefined;
  message(): MessageShape<S>;
  /** Protobuf bytes, without any frame. */
  binary(): Uint8Array;
  /** UTF-8 JSON bytes, without any frame. */
  json(): Uint8Array;
  /** The bytes in a protocol's encoding. */
  encode(encoding: Encoding): Uint8Array;
}
