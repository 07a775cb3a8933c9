import type { EncodedResponse } from "../../domain/encoded-response.js";
import type { Failure } from "../../domain/failure.js";
import type { ResponseStream } from "../../domain/service.js";

/** A stream whose first message can be inspected before its reader takes it. */
export class PeekedStream implements ResponseStream {
  readonly #inner: ResponseStream;
  #held: readonly EncodedResponse[] = [];

  constructor(inner: ResponseStream) {
    this.#inner = inner;
  }

  /** Calls back once, with the first message, or without one if the stream ended. */
  peek(then: (first: EncodedResponse | undefined) => void): void {
    let notified = false;
    const peek = (): void => {
      if (notified) return;
      this.#held = this.#inner.take();
      const [first] = this.#held;
      if (first === undefined && !this.#inner.ended && this.#inner.failure === undefined) return;
      notified = true;
      then(first);
    };
    this.#inner.onReady(peek);
    peek();
  }

  get headers(): ReadonlyMap<string, string> {
    return this.#inner.headers;
  }

  get trailers(): ReadonlyMap<string, string> {
    return this.#inner.trailers;
  }

  get trailerNames(): readonly string[] {
    return this.#inner.trailerNames ?? [];
  }

  get ended(): boolean {
    return this.#held.length === 0 && this.#inner.ended;
  }

  get failure(): Failure | undefined {
    return this.#inner.failure;
  }

  take(): readonly EncodedResponse[] {
    if (this.#held.length === 0) return this.#inner.take();
    const held = this.#held;
    this.#held = [];
    return held;
  }

  onReady(listener: () => void): void {
    this.#inner.onReady(listener);
  }

  close(): void {
    this.#inner.close();
  }
}
