import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import type { Metadata } from "./metadata.js";

/** The form of a message's bytes. */
export type Codec = "proto" | "json";

/** Bytes; a promise while another thread compresses them. */
export type CompressedBytes = Uint8Array | Promise<Uint8Array>;

/**
 * How one protocol wraps a response's bytes, compressed or not: a gRPC frame, a JSON line, an event of an event stream.
 * Must be a constant: a response caches the bytes under this object.
 */
export interface Encoding<Bytes extends CompressedBytes = Uint8Array> {
  encode(response: EncodedResponse): Bytes;
}

/**
 * A value that is encoded at most once per encoding, so that all requests for a version share its bytes. Message and
 * bytes must not be changed.
 */
export interface EncodedResponse<S extends DescMessage = DescMessage> {
  readonly schema: S;
  /** Same version, same content, from every process on the same database. Undefined: the response has no ETag. */
  readonly version: string | undefined;
  /** The id of an event in an event stream: a resume token. Undefined: a reader must not resume behind it. */
  readonly eventId: string | undefined;
  /** Metadata of a unary response. The HTTP API sends its headers only; streams ignore it. */
  readonly metadata?: Metadata | undefined;
  /**
   * Makes the bytes of a large response in turns of the event loop, before they are asked for. Undefined: they are there,
   * or made at once. Clients take turns; `client` is a quota key.
   */
  prepare?(codec: Codec, client: string): Promise<void> | undefined;
  message(): MessageShape<S>;
  /** Protobuf bytes, without any frame. */
  binary(): Uint8Array;
  /** The same behind `headBytes` bytes for a frame's head, which the caller writes. Not kept. */
  binaryBehind(headBytes: number): Buffer;
  /** UTF-8 JSON bytes, without any frame. */
  json(): Uint8Array;
  /** The same as text. Not kept. */
  jsonText(): string;
  /** The bytes in a protocol's encoding. */
  encode<Bytes extends CompressedBytes>(encoding: Encoding<Bytes>): Bytes;
}
