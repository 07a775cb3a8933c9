import type { Codec, EncodedResponse, Encoding } from "../../domain/encoded-response.js";
import type { Failure } from "../../domain/failure.js";
import type { ResponseStream } from "../../domain/service.js";
import type { ProtocolError } from "../errors.js";

/** Why a call ends without its response. */
export type CallError = Failure | ProtocolError;

/** The response to one call in one protocol. */
export interface CallWire {
  /** The form of its messages. */
  readonly codec: Codec;
  /** The encoding of a stream's messages. Read once the stream is open. */
  readonly encoding: Encoding;
  /**
   * Sends the whole response to a unary call: at once, or by calling the function of the promise.
   * @throws Failure before anything was sent; so does that function
   */
  respond(response: EncodedResponse): undefined | Promise<() => void>;
  /** Replaces an opened stream, before its first message is written. */
  adapt?(stream: ResponseStream): ResponseStream | Promise<ResponseStream>;
  /** Sends the protocol's headers and these at once. Called once, before anything else. */
  start(headers: ReadonlyMap<string, string>): void;
  /** Sends frames. False: wait for the drain before writing more. */
  write(frames: Uint8Array): boolean;
  /** Ends the response, with or without an error. Without an earlier `start`, the error is the whole response. */
  finish(error: CallError | undefined, trailers: ReadonlyMap<string, string>): void;
  /** Aborts a response whose reader takes nothing. */
  breakOff(error: CallError): void;
}
