import type { DescMessage } from "@bufbuild/protobuf";
import type { EncodedResponse } from "../domain/encoded-response.js";
import type { Failure } from "../domain/failure.js";
import type { ResponseStream } from "../domain/service.js";
import type { Log } from "../telemetry/log.js";
import type { LiveLimits } from "./limits.js";

/** What readers of one selection get. A place says how far a reader is; they share the messages behind it. */
export interface FeedSource<S extends DescMessage = DescMessage> {
  /** The messages behind a place, and the place behind them. No messages: there is nothing now. */
  next(place: bigint): { readonly responses: readonly EncodedResponse<S>[]; readonly place: bigint };
  /** A message of nothing, which says that the stream lives. */
  readonly heartbeat: EncodedResponse<S>;
}

const none: ReadonlyMap<string, string> = new Map();

/** Readers that are woken between two reads of the clock. */
const wakesPerClockRead = 16;

/** A stream of one reader, which asks its source for what comes behind its place. */
export class FeedStream<S extends DescMessage = DescMessage> implements ResponseStream<S> {
  readonly headers = none;
  readonly trailers = none;
  readonly #source: FeedSource<S>;
  readonly #onClose: (stream: FeedStream<S>) => void;
  #place: bigint;
  #listener: (() => void) | undefined;
  #failure: Failure | undefined;
  #closed = false;
  /** The last `take` was empty, and the listener is to be called. */
  #waiting = true;
  /** The first message comes at once, also if there is nothing to say. */
  #heartbeatDue = true;
  #sentAt = performance.now();

  constructor(source: FeedSource<S>, place: bigint, onClose: (stream: FeedStream<S>) => void) {
    this.#source = source;
    this.#place = place;
    this.#onClose = onClose;
  }

  get ended(): boolean {
    return this.#closed;
  }

  get failure(): Failure | undefined {
    return this.#failure;
  }

  onReady(listener: () => void): void {
    this.#listener = listener;
  }

  take(): readonly EncodedResponse<S>[] {
    if (this.#closed) return [];
    const { responses, place } = this.#source.next(this.#place);
    this.#place = place;
    const isSilent = responses.length === 0;
    this.#waiting = isSilent && !this.#heartbeatDue;
    if (this.#waiting) return [];
    this.#heartbeatDue = false;
    this.#sentAt = performance.now();
    return isSilent ? [this.#source.heartbeat] : responses;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#onClose(this);
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
    if (!this.#waiting || this.#closed) return;
    this.#waiting = false;
    this.#listener?.();
  }

  /** Makes an empty message due after a silence. */
  sweep(now: number, heartbeatMs: number): void {
    if (this.#heartbeatDue || now - this.#sentAt < heartbeatMs) return;
    this.#heartbeatDue = true;
    this.wake();
  }
}

/** A stream, whatever its messages are. */
type OpenFeed = Pick<FeedStream, "wake" | "sweep" | "fail" | "close">;

/** The streams of one chain, beside those of depth. */
export class Feeds {
  readonly #limits: LiveLimits;
  readonly #log: Log;
  /** By selection. */
  readonly #open = new Map<string, { readonly source: unknown; readonly streams: Set<OpenFeed> }>();
  readonly #sweeper: NodeJS.Timeout;
  #waking = false;
  #isStale = false;

  constructor(limits: LiveLimits, log: Log) {
    this.#limits = limits;
    this.#log = log;
    this.#sweeper = setInterval(() => this.#sweep(), Math.min(limits.sweepIntervalMs, limits.heartbeatMs / 2));
    this.#sweeper.unref();
  }

  /** Opens a stream of a selection, from a place on. Readers of the same key share the source, so a key has one kind of it. */
  open<S extends DescMessage>(key: string, place: bigint, makeSource: () => FeedSource<S>): FeedStream<S> {
    const feed = this.#open.get(key) ?? { source: makeSource(), streams: new Set<OpenFeed>() };
    this.#open.set(key, feed);
    const stream = new FeedStream(feed.source as FeedSource<S>, place, (closed) => {
      feed.streams.delete(closed);
      if (feed.streams.size === 0 && this.#open.get(key) === feed) this.#open.delete(key);
    });
    feed.streams.add(stream);
    return stream;
  }

  /** Wakes all readers, in slices with turns of the event loop in between. */
  publish(): void {
    this.#isStale = this.#waking;
    if (!this.#waking)
      this.#wake(
        [...this.#open.values()].flatMap(({ streams }) => [...streams]),
        0,
      );
  }

  /** Ends every stream. No stream may be opened afterwards. */
  end(failure: Failure): void {
    clearInterval(this.#sweeper);
    for (const { streams } of [...this.#open.values()]) for (const stream of [...streams]) stream.fail(failure);
  }

  #wake(streams: readonly OpenFeed[], from: number): void {
    this.#waking = true;
    const until = performance.now() + this.#limits.fanOutSliceMs;
    for (let index = from; index < streams.length; index++) {
      const stream = streams[index];
      if (stream !== undefined) this.#wakeOne(stream);
      if (index % wakesPerClockRead === 0 && performance.now() > until) {
        setImmediate(() => this.#wake(streams, index + 1));
        return;
      }
    }
    this.#waking = false;
    if (this.#isStale) this.publish();
  }

  #wakeOne(stream: OpenFeed): void {
    try {
      stream.wake();
    } catch (error) {
      // One reader's failure does not affect the others.
      this.#log.error({ err: error }, "a stream's reader failed");
      stream.close();
    }
  }

  #sweep(): void {
    const now = performance.now();
    for (const { streams } of this.#open.values()) {
      for (const stream of streams) stream.sweep(now, this.#limits.heartbeatMs);
    }
  }
}
