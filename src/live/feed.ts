import type { DescMessage } from "@bufbuild/protobuf";
import type { EncodedResponse } from "../domain/encoded-response.js";
import { Failure } from "../domain/failure.js";
import type { ResponseStream } from "../domain/service.js";
import type { Log } from "../telemetry/log.js";
import type { LiveLimits } from "./limits.js";
import { type AnyReader, type ReaderCounts, ReaderGroups, ReaderStream } from "./reader-stream.js";

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

/** The place of a reader that was sent nothing yet, in feeds that begin with what there is. */
export const nothingSent = -1n;

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

/** A reader that asks a source. */
export interface FeedReader {
  /** Of its client. What is read for it alone is read in the turns of that. */
  readonly clientAddress: string;
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
class FeedStream<S extends DescMessage> extends ReaderStream<S> implements FeedReader {
  #place: bigint;
  /** An empty message would say that there is nothing, which the source does not know yet. */
  #isUnread: boolean;

  /** From a place on. */
  constructor(
    private readonly source: FeedSource<S>,
    place: bigint,
    readonly clientAddress: string,
    private readonly totals: FeedTotals,
    private readonly onClose: (stream: AnyReader) => void,
  ) {
    super();
    this.#place = place;
    this.#isUnread = source.readsFirst === true;
    this.heartbeatDue = !this.#isUnread;
  }

  get behind(): boolean {
    return !this.isWaiting && !this.ended;
  }

  take(): readonly EncodedResponse<S>[] {
    if (this.ended) return [];
    let responses: readonly EncodedResponse<S>[] = [];
    // A place may lead on without a message: there may be one behind it.
    for (let isMoving = true; isMoving && responses.length === 0; ) {
      const next = this.source.next(this.#place, this);
      isMoving = next.place !== this.#place;
      ({ responses } = next);
      this.#place = next.place;
    }
    const isSilent = responses.length === 0;
    this.isWaiting = isSilent && !this.heartbeatDue;
    if (this.isWaiting) return [];
    this.#isUnread = false;
    this.noteSent();
    if (isSilent) responses = [this.source.heartbeat];
    this.totals.messages += responses.length;
    return responses;
  }

  protected left(): void {
    this.onClose(this);
  }

  override fail(failure: Failure): void {
    if (!this.ended && failure.reason === readerStalled) this.totals.endedBehind++;
    super.fail(failure);
  }

  override sweep(heartbeatSweeps: number): boolean {
    return !this.#isUnread && super.sweep(heartbeatSweeps);
  }
}

/** The streams of one chain, beside those of depth. */
export class Feeds {
  readonly #groups: ReaderGroups<FeedSource, AnyReader>;

  /** Adds what it counts to `totals`. */
  constructor(
    limits: LiveLimits,
    private readonly log: Log,
    private readonly totals: Readonly<Record<FeedKind, FeedTotals>>,
  ) {
    this.#groups = new ReaderGroups(
      limits,
      (error) => log.error({ err: error }, "a stream's reader failed"),
      (source) => source.ended?.(),
    );
  }

  /**
   * Opens a stream of a selection, from a place on. Readers of the same key share the source, so a key has one kind of
   * it.
   */
  open<S extends DescMessage>(
    key: string,
    place: bigint,
    makeSource: (owner: FeedOwner) => FeedSource<S>,
    clientAddress = "",
  ): ResponseStream<S> {
    const group = this.#groups.groupOf(key, (readers) => {
      return makeSource({ wakeAll: () => this.#wakeAll(readers), log: this.log }) as unknown as FeedSource;
    });
    const source = group.source as unknown as FeedSource<S>;
    const stream = new FeedStream(source, place, clientAddress, this.totals[source.kind], group.leave);
    group.readers.add(stream);
    return stream;
  }

  counts(kind: FeedKind): ReaderCounts {
    return this.#groups.counts((source) => source.kind === kind);
  }

  /** There is a newer block. */
  publish(): void {
    for (const { source, readers } of this.#groups.all()) {
      if (source.changed === undefined) this.#wakeAll(readers);
      else source.changed();
    }
  }

  /** Ends every stream. No stream may be opened afterwards. */
  end(failure: Failure): void {
    this.#groups.end(failure);
  }

  #wakeAll(readers: Iterable<AnyReader>): void {
    this.#groups.queue(readers);
    this.#groups.wake();
  }
}
