import type { Codec, EncodedResponse, Encoding } from "../../domain/encoded-response.js";
import type { Failure } from "../../domain/failure.js";
import type { ResponseStream } from "../../domain/service.js";
import { grpcCode } from "../../encoding/status.js";
import { clientLeft, type ProtocolError } from "../errors.js";

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
  breakOff(failure: Failure): void;
}

/** What a wire of unary calls only has of {@link CallWire}; none of it is ever used. */
export abstract class WithoutStream {
  get encoding(): never {
    throw new TypeError("a unary response has no stream of messages");
  }

  start(): void {}

  write(): boolean {
    return true;
  }
}

const cancelledCode = grpcCode(clientLeft);

/** What a pump needs of its call. */
export interface PumpEvents {
  /** Converts a thrown error to one that a client may see. */
  toFailure(thrown: unknown): Failure;
  /** The response ended, with this gRPC status. */
  finished(code: number): void;
}

/**
 * Moves a response stream to a response. Everything that one `take` returns is one write; the next `take` follows the
 * drain. If the stream fails while the reader takes nothing, the response is aborted after a grace period.
 */
export class StreamPump {
  readonly #stream: ResponseStream;
  readonly #wire: CallWire;
  readonly #events: PumpEvents;
  readonly #breakOffMs: number;
  #started = false;
  #blocked = false;
  #pumping = false;
  #done = false;
  #failedOutside: Failure | undefined;
  #grace: NodeJS.Timeout | undefined;

  constructor(stream: ResponseStream, wire: CallWire, events: PumpEvents, breakOffMs: number) {
    this.#stream = stream;
    this.#wire = wire;
    this.#events = events;
    this.#breakOffMs = breakOffMs;
  }

  /** Starts, and sends the headers at once, unless the stream has failed already. */
  run(): void {
    this.#stream.onReady(() => this.#pump());
    this.#pump();
    this.#start();
  }

  /** The response can take more. */
  drained(): void {
    this.#blocked = false;
    if (this.#failedOutside === undefined) this.#pump();
    else this.#finish(this.#failedOutside);
  }

  /** The call failed from outside, for example by its deadline. */
  fail(failure: Failure): void {
    if (this.#done) return;
    this.#failedOutside = failure;
    this.#stream.close();
    if (this.#blocked) this.#breakOffSoon(failure);
    else this.#finish(failure);
  }

  /** The reader has gone. */
  left(): void {
    if (this.#done) return;
    this.#settle(cancelledCode);
  }

  #pump(): void {
    if (this.#done || this.#pumping || this.#failedOutside !== undefined) return;
    if (this.#blocked) {
      if (this.#stream.failure !== undefined) this.#breakOffSoon(this.#stream.failure);
      return;
    }
    this.#pumping = true;
    try {
      this.#pumpWhileWritable();
    } catch (thrown) {
      this.#finish(this.#events.toFailure(thrown));
    }
    this.#pumping = false;
  }

  #pumpWhileWritable(): void {
    while (!this.#blocked && !this.#done) {
      const responses = this.#stream.take();
      if (responses.length === 0) {
        const failure = this.#stream.failure;
        if (failure !== undefined) this.#finish(this.#events.toFailure(failure));
        else if (this.#stream.ended) this.#finish(undefined);
        return;
      }
      const frames = joined(responses, this.#wire.encoding);
      this.#start();
      this.#blocked = !this.#wire.write(frames);
    }
  }

  #start(): void {
    if (this.#started || this.#done) return;
    this.#started = true;
    this.#wire.start(this.#stream.headers);
  }

  #breakOffSoon(failure: Failure): void {
    if (this.#grace !== undefined) return;
    this.#grace = setTimeout(() => {
      if (this.#done) return;
      this.#wire.breakOff(failure);
      this.#settle(grpcCode(failure));
    }, this.#breakOffMs);
  }

  #finish(failure: Failure | undefined): void {
    if (this.#done) return;
    if (failure === undefined) this.#start();
    this.#wire.finish(failure, failure === undefined ? this.#stream.trailers : new Map());
    this.#settle(failure === undefined ? 0 : grpcCode(failure));
  }

  #settle(code: number): void {
    this.#done = true;
    clearTimeout(this.#grace);
    this.#stream.close();
    this.#events.finished(code);
  }
}

function joined(responses: readonly EncodedResponse[], encoding: Encoding): Uint8Array {
  const [first] = responses;
  if (responses.length === 1 && first !== undefined) return first.encode(encoding);
  return Buffer.concat(responses.map((response) => response.encode(encoding)));
}
