import { Failure } from "../domain/failure.js";
import type { AnswerStream, Call, Method, StreamMethod } from "../domain/service.js";

/** How many streams may be open at once. */
export interface StreamLimits {
  /** Of this process. */
  readonly streamsMax: number;
  /** Of one client address. */
  readonly streamsPerAddressMax: number;
}

/** What holds where nothing else is said. */
export const streamLimits: StreamLimits = { streamsMax: 20_000, streamsPerAddressMax: 1_000 };

/** What a client that has too many streams is told to wait. */
export const streamRetryAfterMs = 5_000;

/** Counts the open streams of all methods together, and refuses those beyond the limits with RESOURCE_EXHAUSTED. */
export class StreamGate {
  readonly #limits: StreamLimits;
  readonly #byAddress = new Map<string, number>();
  #open = 0;

  constructor(limits: StreamLimits = streamLimits) {
    this.#limits = limits;
  }

  /** Streams open now. */
  get open(): number {
    return this.#open;
  }

  /** The same method, counted, if it streams; otherwise the method itself. */
  guard(method: Method): Method {
    if (method.kind === "unary") return method;
    return { ...method, open: (request, call) => this.#openCounted(method, request, call) };
  }

  #openCounted(
    method: StreamMethod,
    request: Parameters<StreamMethod["open"]>[0],
    call: Call,
  ): AnswerStream | Promise<AnswerStream> {
    const release = this.#enter(call.clientAddress);
    try {
      const stream = method.open(request, call);
      if (!(stream instanceof Promise)) return new CountedStream(stream, release);
      return stream.then(
        (opened) => new CountedStream(opened, release),
        (error: unknown) => {
          release();
          throw error;
        },
      );
    } catch (error) {
      release();
      throw error;
    }
  }

  #enter(address: string): () => void {
    const { streamsMax, streamsPerAddressMax } = this.#limits;
    const ofAddress = this.#byAddress.get(address) ?? 0;
    if (ofAddress >= streamsPerAddressMax) {
      throw tooMany(`your address has ${ofAddress} open streams, as many as it may; close some`, "STREAMS_PER_ADDRESS");
    }
    if (this.#open >= streamsMax) {
      throw tooMany(`the service has ${this.#open} open streams, as many as it takes; try again later`, "STREAMS");
    }
    this.#open++;
    this.#byAddress.set(address, ofAddress + 1);
    let released = false;
    return () => {
      if (released) return;
      released = true;
      this.#open--;
      const left = (this.#byAddress.get(address) ?? 1) - 1;
      if (left === 0) this.#byAddress.delete(address);
      else this.#byAddress.set(address, left);
    };
  }
}

function tooMany(message: string, reason: string): Failure {
  return new Failure("resource_exhausted", message, { reason, retryAfterMs: streamRetryAfterMs });
}

/** A stream that gives its place back when it ends, however it does. */
class CountedStream implements AnswerStream {
  readonly #stream: AnswerStream;
  readonly #release: () => void;

  constructor(stream: AnswerStream, release: () => void) {
    this.#stream = stream;
    this.#release = release;
  }

  get headers() {
    return this.#stream.headers;
  }

  get trailers() {
    return this.#stream.trailers;
  }

  get ended() {
    return this.#stream.ended;
  }

  get failure() {
    return this.#stream.failure;
  }

  take() {
    const answers = this.#stream.take();
    if (answers.length === 0 && this.#stream.ended) this.#release();
    return answers;
  }

  onReady(listener: () => void) {
    this.#stream.onReady(listener);
  }

  close() {
    this.#release();
    this.#stream.close();
  }
}
