import type { DescMessage } from "@bufbuild/protobuf";
import type { EncodedResponse } from "../domain/encoded-response.js";
import type { Failure } from "../domain/failure.js";
import type { ResponseStream } from "../domain/service.js";
import type { LiveLimits } from "./limits.js";

const none: ReadonlyMap<string, string> = new Map();

/** Readers that are woken between two reads of the clock. */
const wakesPerClockRead = 16;

/** Silent streams are found within a heartbeat divided by this. */
const sweepsPerHeartbeat = 4;

/** A stream of one reader: how it waits, is told that it lives, and ends. */
export abstract class ReaderStream<S extends DescMessage> implements ResponseStream<S> {
  readonly headers = none;
  readonly trailers = none;
  /** The last `take` was empty, and the listener is to be called. */
  protected isWaiting = true;
  /** An empty message is due: as the first one if there is nothing to say, and after a silence. */
  protected heartbeatDue = false;
  /** Sweeps since the last message: cheaper than to read the clock for each. */
  #silentSweeps = 0;
  #listener: (() => void) | undefined;
  #failure: Failure | undefined;
  #closed = false;

  /** Whether messages may wait for the reader. */
  abstract get behind(): boolean;

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
    this.endWith(failure);
    this.wake();
  }

  /** Ends the stream with an error, of which its listener hears when it is woken. */
  endWith(failure: Failure): void {
    if (this.#closed) return;
    this.#failure = failure;
    this.close();
    this.isWaiting = true;
  }

  /** Calls the listener, if the reader waits, or is to hear why its stream has ended. */
  wake(): void {
    if (!this.isWaiting || (this.#closed && this.#failure === undefined)) return;
    this.isWaiting = false;
    this.#listener?.();
  }

  /**
   * Called at regular intervals: makes an empty message due after `heartbeatSweeps` of them without a message.
   * @returns whether it became due, so that the reader is to be woken
   */
  sweep(heartbeatSweeps: number): boolean {
    if (++this.#silentSweeps < heartbeatSweeps || this.heartbeatDue) return false;
    this.heartbeatDue = true;
    return true;
  }

  /** The reader is given a message. */
  protected noteSent(): void {
    this.heartbeatDue = false;
    this.#silentSweeps = 0;
  }
}

/** A stream, whatever its messages are. */
export type AnyReader = Pick<ReaderStream<DescMessage>, "wake" | "sweep" | "endWith" | "close" | "behind">;

/** Open streams, as metrics count them. */
export interface ReaderCounts {
  readonly subscribers: number;
  /** Streams for which messages wait. */
  readonly lagging: number;
}

/** The readers that share a source of messages. */
interface ReaderGroup<Source, Reader> {
  readonly source: Source;
  readonly readers: Set<Reader>;
  /** Forgets a reader that has left. One function for all: a closure for each of ten thousand readers slows waking. */
  readonly leave: (reader: Reader) => void;
}

/**
 * The open streams of one chain, in groups by their source. Wakes readers in slices, with turns of the event loop in
 * between: what comes meanwhile is merged for those that wait.
 */
export class ReaderGroups<Source, Reader extends AnyReader> {
  readonly #sliceMs: number;
  readonly #onError: (error: unknown, reader: Reader) => void;
  readonly #onEmpty: (source: Source) => void;
  readonly #groups = new Map<string, ReaderGroup<Source, Reader>>();
  readonly #sweeper: NodeJS.Timeout;
  /** Readers that are to be woken. */
  readonly #queue = new Set<Reader>();
  #isWaking = false;

  /**
   * `onError` is told of a reader that failed when it was woken; the others go on. `onEmpty` is told of a source whose
   * last reader has left.
   */
  constructor(
    limits: LiveLimits,
    onError: (error: unknown, reader: Reader) => void,
    onEmpty: (source: Source) => void = () => {},
  ) {
    const { heartbeatMs, sweepIntervalMs, fanOutSliceMs } = limits;
    this.#sliceMs = fanOutSliceMs;
    this.#onError = onError;
    this.#onEmpty = onEmpty;
    const sweepMs = Math.max(1, Math.min(sweepIntervalMs, Math.floor(heartbeatMs / sweepsPerHeartbeat)));
    const heartbeatSweeps = Math.ceil(heartbeatMs / sweepMs);
    this.#sweeper = setInterval(() => this.#sweep(heartbeatSweeps), sweepMs).unref();
  }

  /** The groups now. */
  all(): readonly ReaderGroup<Source, Reader>[] {
    return [...this.#groups.values()];
  }

  /** The group of a key, which its first reader makes. */
  groupOf(key: string, makeSource: (readers: ReadonlySet<Reader>) => Source): ReaderGroup<Source, Reader> {
    let group = this.#groups.get(key);
    if (group === undefined) {
      const readers = new Set<Reader>();
      const source = makeSource(readers);
      const leave = (reader: Reader): void => {
        this.#queue.delete(reader);
        readers.delete(reader);
        if (readers.size > 0) return;
        this.#groups.delete(key);
        this.#onEmpty(source);
      };
      group = { source, readers, leave };
      this.#groups.set(key, group);
    }
    return group;
  }

  counts(isCounted: (source: Source) => boolean = () => true): ReaderCounts {
    let subscribers = 0;
    let lagging = 0;
    for (const { source, readers } of this.#groups.values()) {
      if (!isCounted(source)) continue;
      subscribers += readers.size;
      for (const reader of readers) if (reader.behind) lagging++;
    }
    return { subscribers, lagging };
  }

  /** Ends every stream. No stream may be opened afterwards. */
  end(failure: Failure): void {
    clearInterval(this.#sweeper);
    for (const { readers } of this.all()) this.fail(readers, failure);
    this.wake();
  }

  /** Ends the streams of readers. They leave at once, and {@link wake} tells them why. */
  fail(readers: Iterable<Reader>, failure: Failure): void {
    const ended = [...readers];
    for (const reader of ended) reader.endWith(failure);
    this.queue(ended);
  }

  /** {@link wake} wakes them. */
  queue(readers: Iterable<Reader>): void {
    for (const reader of readers) this.#queue.add(reader);
  }

  wake(): void {
    if (!this.#isWaking) this.#wakeSlice();
  }

  #wakeSlice(): void {
    this.#isWaking = true;
    const until = performance.now() + this.#sliceMs;
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

  #wakeOne(reader: Reader): void {
    try {
      reader.wake();
    } catch (error) {
      this.#onError(error, reader);
      reader.close();
    }
  }

  #sweep(heartbeatSweeps: number): void {
    for (const { readers } of this.#groups.values()) {
      for (const reader of readers) if (reader.sweep(heartbeatSweeps)) this.#queue.add(reader);
    }
    this.wake();
  }
}
