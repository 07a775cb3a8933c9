import type { EncodedResponse, Encoding } from "../../domain/encoded-response.js";
import type { Failure } from "../../domain/failure.js";
import type { ResponseStream } from "../../domain/service.js";
import type { ProtocolError } from "./protocol-error.js";

/** Why a call ends without its response. */
export type CallError = Failure | ProtocolError;

/** One response of one protocol, to a call of any kind. */
export interface CallWire {
  /** What a stream's messages look like here. Read once the stream is open. */
  readonly encoding: Encoding;
  /**
   * The whole response to a unary call that went well, now, or by the function that is promised.
   * @throws Failure before anything was sent; so does that function
   */
  respond(response: EncodedResponse): undefined | Promise<() => void>;
  /** Changes a stream that has opened, before its first message is written. */
  adapt?(stream: ResponseStream): ResponseStream | Promise<ResponseStream>;
  /** Sends the headers at once, with these beside the protocol's own. Called once, before all else. */
  start(headers: ReadonlyMap<string, string>): void;
  /** Sends frames; false: not now any more, wait for the drain. */
  write(frames: Uint8Array): boolean;
  /** Ends the response, well or with an error; without `start` before it, the error is the whole response. */
  finish(error: CallError | undefined, trailers: ReadonlyMap<string, string>): void;
  /** Cuts a response that its reader does not take. */
  breakOff(failure: Failure): void;
}
