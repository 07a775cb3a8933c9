import type { DescMessage } from "@bufbuild/protobuf";
import type { EncodedResponse } from "../domain/encoded-response.js";
import type { Failure } from "../domain/failure.js";
import type { ResponseStream } from "../domain/service.js";

const none: ReadonlyMap<string, string> = new Map();

/** Readers that are woken between two reads of the clock. */
const wakesPerClockRead = 16;

/** A stream of one reader: how it waits, and how it ends. */
export abstract class ReaderStream<S extends DescMessage> implements ResponseStream<S> {
  readonly headers = none;
  readonly trailers = none;
  /** The last `take` was empty, and the listener is to be called. */
  protected isWaiting = true;
  #listener: (() => void) | undefined;
  #failure: Failure | undefined;
  #closed = false;

  abstract take(): readonly EncodedResponse<S>[];

  /** Called once, when the stream has ended. */
  protected abstract left(): void;

  get ended(): boolean {
    return this.#closed;
  }

  get failure(): Failure | undefined {
    return this.#failure;
  }

  onReady(listener: () => void): void {
    this.#listener = listener;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.left();
  }

  /** Ends the stream with an error, at once. */
  fail(failure: Failure): void {
    if (this.#closed) return;
    this.#failure = failure;
    this.close();
    this.#listener?.();
  }

  /** Calls the listener, if the reader waits. */
  wake(): void {
    if (!this.isWaiting || this.#closed) return;
    this.isWaiting = false;
    this.#listener?.();
  }
}

/** A stream, whatever its messages are. */
export type AnyStream = Pick<ReaderStream<DescMessage>, "wake" | "close">;

/** Wakes readers in slices, with turns of the event loop in between. What comes meanwhile is merged for those that wait. */
export class Waker<R extends AnyStream> {
  readonly #queue = new Set<R>();
  #isWaking = false;

  constructor(
    private readonly sliceMs: number,
    private readonly onError: (error: unknown, reader: R) => void,
  ) {}

  /** {@link wake} wakes them. */
  add(readers: Iterable<R>): void {
    for (const reader of readers) this.#queue.add(reader);
  }

  delete(reader: R): void {
    this.#queue.delete(reader);
  }

  wake(): void {
    if (!this.#isWaking) this.#wakeSlice();
  }

  #wakeSlice(): void {
    this.#isWaking = true;
    const until = performance.now() + this.sliceMs;
    let woken = 0;
    for (const reader of this.#queue) {
      this.#queue.delete(reader);
      this.#wakeOne(reader);
      if (++woken % wakesPerClockRead === 0 && performance.now() > until) {
        setImmediate(() => this.#wakeSlice());
        return;
      }
    }
    this.#isWaking = false;
  }

  #wakeOne(reader: R): void {
    try {
      reader.wake();
    } catch (error) {
      // One reader's failure does not affect the others.
      this.onError(error, reader);
      reader.close();
    }
  }
}
