import type { DescMessage } from "@bufbuild/protobuf";
import type { EncodedResponse } from "../domain/encoded-response.js";
import { Failure } from "../domain/failure.js";
import type { Log } from "../telemetry/log.js";
import type { LiveLimits } from "./limits.js";
import { ReaderStream, Waker } from "./reader-stream.js";

/** What streams are of, as the label of their metrics. */
export const feedKinds = ["market_data", "trades", "candles"] as const;

/** One of {@link feedKinds}. */
export type FeedKind = (typeof feedKinds)[number];

/** What was counted of the streams of one kind since the start. */
export interface FeedTotals {
  /** Messages handed to readers, heartbeats among them. A shared message counts each time. */
  messages: number;
  /** Streams that were ended because their reader was too far behind. */
  endedBehind: number;
}

/** The streams of one kind that are open now. */
export interface FeedCounts {
  readonly subscribers: number;
  /** Streams for which messages wait. */
  readonly lagging: number;
}

/** What readers of one selection get. A place says how far a reader is; they share the messages behind it. */
export interface FeedSource<S extends DescMessage = DescMessage> {
  readonly kind: FeedKind;
  /** The messages behind a place, and the place behind them. The same place: there is nothing now. */
  next(
    place: bigint,
    reader: FeedReader,
  ): { readonly responses: readonly EncodedResponse<S>[]; readonly place: bigint };
  /** A message of nothing, which says that the stream lives. */
  readonly heartbeat: EncodedResponse<S>;
  /** It reads something before its readers' first message, which it gives also if there is nothing to say. */
  readonly readsFirst?: boolean;
  /** There is a newer block. A source that reads something first wakes its readers afterwards. */
  changed?(): void;
  /** It has no reader any more. */
  ended?(): void;
}

/** What a source has of the feed that opens it. */
export interface FeedOwner {
  /** Wakes all readers. */
  wakeAll(): void;
  readonly log: Log;
}

/** What a source may do with a reader that asks it. */
export interface FeedReader {
  /** Ends its stream with an error. */
  fail(failure: Failure): void;
}

/** Reads again after an error that may pass, when a pause is over. A newer block may come first. */
export class Retry {
  #timer: NodeJS.Timeout | undefined;
  #hasEnded = false;

  constructor(
    private readonly again: () => void,
    private readonly pauseMs: number,
    private readonly log: Log,
  ) {}

  /** The source has no reader any more. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Whether it will read again by itself. */
  get isDue(): boolean {
    return this.#timer !== undefined;
  }

  later(error: unknown): void {
    if (this.#hasEnded) return;
    // A database that is away is told of by the state, once for all.
    if (!(error instanceof Failure)) this.log.error({ err: error }, "a stream's source failed; it reads again");
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.again();
    }, this.pauseMs).unref();
  }

  end(): void {
    this.#hasEnded = true;
    clearTimeout(this.#timer);
  }
}

/** The reason of failures that end the streams of readers that are too far behind. */
export const readerStalled = "READER_STALLED";

/** A stream of one reader, which asks its source for what comes behind its place. */
export class FeedStream<S extends DescMessage = DescMessage> extends ReaderStream<S> {
  readonly #source: FeedSource<S>;
  readonly #totals: FeedTotals;
  readonly #onClose: (stream: FeedStream<S>) => void;
  #place: bigint;
  /** The first message comes at once, also if there is nothing to say, unless the source reads first. */
  #heartbeatDue: boolean;
  /** An empty message would say that there is nothing, which the source does not know yet. */
  #isUnread: boolean;
  #sentAt = performance.now();

  constructor(source: FeedSource<S>, place: bigint, totals: FeedTotals, onClose: (stream: FeedStream<S>) => void) {
    super();
    this.#source = source;
    this.#isUnread = source.readsFirst === true;
    this.#heartbeatDue = !this.#isUnread;
    this.#totals = totals;
    this.#place = place;
    this.#onClose = onClose;
  }

  /** Whether messages may wait for the reader. */
  get behind(): boolean {
    return !this.isWaiting && !this.ended;
  }

  take(): readonly EncodedResponse<S>[] {
    if (this.ended) return [];
    let responses: readonly EncodedResponse<S>[] = [];
    // A place may lead on without a message: there may be one behind it.
    for (let isMoving = true; isMoving && responses.length === 0; ) {
      const next = this.#source.next(this.#place, this);
      isMoving = next.place !== this.#place;
      ({ responses } = next);
      this.#place = next.place;
    }
    const isSilent = responses.length === 0;
    this.isWaiting = isSilent && !this.#heartbeatDue;
    if (this.isWaiting) return [];
    this.#heartbeatDue = false;
    this.#isUnread = false;
    this.#sentAt = performance.now();
    if (isSilent) responses = [this.#source.heartbeat];
    this.#totals.messages += responses.length;
    return responses;
  }

  protected left(): void {
    this.#onClose(this);
  }

  override fail(failure: Failure): void {
    if (!this.ended && failure.reason === readerStalled) this.#totals.endedBehind++;
    super.fail(failure);
  }

  /** Makes an empty message due after a silence. */
  sweep(now: number, heartbeatMs: number): void {
    if (this.#isUnread || this.#heartbeatDue || now - this.#sentAt < heartbeatMs) return;
    this.#heartbeatDue = true;
    this.wake();
  }
}

/** A stream, whatever its messages are. */
type OpenFeed = Pick<FeedStream, "wake" | "sweep" | "fail" | "close" | "behind">;

interface OpenSelection {
  readonly source: FeedSource;
  readonly streams: Set<OpenFeed>;
}

/** The streams of one chain, beside those of depth. */
export class Feeds {
  readonly #limits: LiveLimits;
  readonly #log: Log;
  readonly #totals: Readonly<Record<FeedKind, FeedTotals>>;
  readonly #open = new Map<string, OpenSelection>();
  readonly #sweeper: NodeJS.Timeout;
  readonly #waker: Waker<OpenFeed>;

  /** Adds what it counts to `totals`. */
  constructor(limits: LiveLimits, log: Log, totals: Readonly<Record<FeedKind, FeedTotals>>) {
    this.#limits = limits;
    this.#log = log;
    this.#waker = new Waker(limits.fanOutSliceMs, (error) => log.error({ err: error }, "a stream's reader failed"));
    this.#totals = totals;
    this.#sweeper = setInterval(() => this.#sweep(), Math.min(limits.sweepIntervalMs, limits.heartbeatMs / 2));
    this.#sweeper.unref();
  }

  /**
   * Opens a stream of a selection, from a place on. Readers of the same key share the source, so a key has one kind of
   * it.
   */
  open<S extends DescMessage>(
    key: string,
    place: bigint,
    makeSource: (owner: FeedOwner) => FeedSource<S>,
  ): FeedStream<S> {
    const selection = this.#open.get(key) ?? this.#begin(makeSource);
    this.#open.set(key, selection);
    const source = selection.source as unknown as FeedSource<S>;
    const stream = new FeedStream(source, place, this.#totals[source.kind], (closed) => {
      selection.streams.delete(closed);
      this.#waker.delete(closed);
      if (selection.streams.size > 0) return;
      this.#open.delete(key);
      selection.source.ended?.();
    });
    selection.streams.add(stream);
    return stream;
  }

  #begin<S extends DescMessage>(makeSource: (owner: FeedOwner) => FeedSource<S>): OpenSelection {
    const streams = new Set<OpenFeed>();
    const source = makeSource({ wakeAll: () => this.#wakeAll(streams), log: this.#log });
    return { source: source as unknown as FeedSource, streams };
  }

  counts(kind: FeedKind): FeedCounts {
    let subscribers = 0;
    let lagging = 0;
    for (const { source, streams } of this.#open.values()) {
      if (source.kind !== kind) continue;
      subscribers += streams.size;
      for (const stream of streams) if (stream.behind) lagging++;
    }
    return { subscribers, lagging };
  }

  /** There is a newer block. */
  publish(): void {
    for (const { source, streams } of this.#open.values()) {
      if (source.changed === undefined) this.#wakeAll(streams);
      else source.changed();
    }
  }

  /** Ends every stream. No stream may be opened afterwards. */
  end(failure: Failure): void {
    clearInterval(this.#sweeper);
    for (const { streams } of [...this.#open.values()]) for (const stream of [...streams]) stream.fail(failure);
  }

  #wakeAll(streams: ReadonlySet<OpenFeed>): void {
    this.#waker.add(streams);
    this.#waker.wake();
  }

  #sweep(): void {
    const now = performance.now();
    for (const { streams } of this.#open.values()) {
      for (const stream of streams) stream.sweep(now, this.#limits.heartbeatMs);
    }
  }
}
