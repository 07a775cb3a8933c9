import type { DescMessage } from "@bufbuild/protobuf";
import type { BlockHead } from "../domain/block-headers.js";
import { Failure, unavailable } from "../domain/failure.js";
import type { ResponseStream } from "../domain/service.js";
import type { Changes } from "../store/changes.js";
import type { Database } from "../store/database.js";
import type { Log } from "../telemetry/log.js";
import type { Metrics } from "../telemetry/metrics.js";
import { type FeedKind, type FeedOwner, type FeedSource, Feeds, type FeedTotals } from "./feed.js";
import { Hub, type StreamOptions } from "./hub.js";
import { type LiveLimits, liveLimits, liveRetryAfterMs } from "./limits.js";
import type { LiveMarket } from "./live-market.js";
import { blockAgeSeconds, databaseSilenceSeconds, registerLiveMetrics } from "./live-metrics.js";
import { bookStale, LiveState, type MarketCounts } from "./live-state.js";
import type { ReaderCounts } from "./reader-stream.js";
import type { Subscriber } from "./subscriber.js";
import { Tail } from "./tail.js";

/** The state in a few figures, as JSON shows them. Undefined: not known yet. */
export interface LiveStatus extends Partial<MarketCounts> {
  /** Decimal. */
  readonly blockHeight?: string | undefined;
  /** Unix nanoseconds, decimal. */
  readonly blockTimestamp?: string | undefined;
  /** By this machine's clock. */
  readonly blockAgeSeconds?: number | undefined;
  /** Number of the network's newest event, decimal. */
  readonly streamSequence?: string | undefined;
  /** Since the database last answered. */
  readonly databaseSilenceSeconds?: number | undefined;
}

/** What a process follows, and with what. */
export interface LiveOptions {
  readonly database: Database;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly limits?: Partial<LiveLimits>;
}

const noReaders: ReaderCounts = { subscribers: 0, lagging: 0 };

/** The current state in memory, and the streams of its changes. */
export class Live {
  readonly #limits: LiveLimits;
  readonly #log: Log;
  readonly #tail: Tail;
  readonly #listeners: ((ready: boolean) => void)[] = [];
  readonly #depthTotals = { messages: 0 };
  readonly #feedTotals: Readonly<Record<FeedKind, FeedTotals>> = {
    market_data: { messages: 0, endedBehind: 0 },
    trades: { messages: 0, endedBehind: 0 },
    candles: { messages: 0, endedBehind: 0 },
  };
  #state: LiveState | undefined;
  /** Of the state; undefined while there is none, and once the streams are drained. */
  #streams: { readonly hub: Hub; readonly feeds: Feeds } | undefined;
  #draining = false;
  /** Whether it was said that the database is empty. */
  #isEmpty = false;

  private constructor({ database, log, metrics, limits }: LiveOptions) {
    this.#limits = { ...liveLimits, ...limits };
    this.#log = log;
    this.#tail = new Tail({
      ...{ database, limits: this.#limits, log },
      onChanges: (changes, afresh) => this.#onChanges(changes, afresh),
      onEmpty: () => this.#onEmpty(),
    });
    const measured = {
      newest: () => this.#state,
      depthTotals: this.#depthTotals,
      depthCounts: () => this.#streams?.hub.counts() ?? noReaders,
      feedTotals: this.#feedTotals,
      feedCounts: (kind: FeedKind) => this.#streams?.feeds.counts(kind) ?? noReaders,
    };
    registerLiveMetrics(metrics, measured, this.#tail);
  }

  /**
   * Starts to follow a database. Resolves after the first attempt to read it. If that failed, or the database is empty,
   * the state becomes ready by itself later.
   */
  static async start(options: LiveOptions): Promise<Live> {
    const live = new Live(options);
    await live.#tail.start();
    return live;
  }

  /** Whether a snapshot was read. It stays true while the database is unreachable. */
  get ready(): boolean {
    return this.#state !== undefined;
  }

  /** The newest state. @throws Failure `unavailable` while there is none */
  state(): LiveState {
    if (this.#state === undefined) throw notReady();
    return this.#state;
  }

  /** The newest block that was applied; the same object until the next. Undefined before the first. */
  newestBlock(): BlockHead | undefined {
    return this.#state?.progress;
  }

  /** The age of the newest block by this machine's clock, in seconds; undefined before the first. */
  blockAgeSeconds(): number | undefined {
    return blockAgeSeconds(this.#state);
  }

  status(): LiveStatus {
    const progress = this.#state?.progress;
    return {
      blockHeight: progress && String(progress.height),
      blockTimestamp: progress && String(progress.timeNs),
      blockAgeSeconds: toMilliseconds(this.blockAgeSeconds()),
      streamSequence: progress && String(progress.streamSequence),
      ...this.#state?.counts,
      databaseSilenceSeconds: toMilliseconds(databaseSilenceSeconds(this.#tail)),
    };
  }

  /**
   * Opens a stream of markets (ids, in which doubles count once); none: all that are not stale, also those announced later.
   * @throws Failure `unavailable` while not ready or draining; naming a stale market that was asked for, or whose book
   * the reader may hold from an earlier stream, unless the kind of the stream tells of it; `not_found` naming the first
   * unknown one
   */
  observe(marketIds: readonly string[], options: StreamOptions): Subscriber {
    const state = this.state();
    if (this.#streams === undefined) throw draining();
    const { hub } = this.#streams;
    const tellsStatus = options.kind?.tellsStatus === true;
    if (marketIds.length === 0) {
      const stale = tellsStatus
        ? undefined
        : state.announced.find((market) => market.stale && mayHold(market, options));
      if (stale !== undefined) throw bookStale(stale.id);
      return hub.open(undefined, options);
    }
    const markets = [...new Set(marketIds)].map((id) =>
      tellsStatus ? state.requireMarket(id) : state.requireBook(id),
    );
    return hub.open(markets, options);
  }

  /**
   * Opens a stream of a selection behind a place; see {@link Feeds.open}.
   * @throws Failure `unavailable` while not ready or draining
   */
  openFeed<S extends DescMessage>(
    key: string,
    place: bigint,
    makeSource: (owner: FeedOwner) => FeedSource<S>,
    clientAddress?: string,
  ): ResponseStream<S> {
    this.state();
    if (this.#streams === undefined) throw draining();
    return this.#streams.feeds.open(key, place, makeSource, clientAddress);
  }

  /** Called with each change of {@link ready}. */
  onReadiness(listener: (ready: boolean) => void): void {
    this.#listeners.push(listener);
  }

  /** Ends every stream with UNAVAILABLE, and refuses new ones. Resolves when the database is no longer used. */
  async stop(): Promise<void> {
    this.#draining = true;
    this.#endStreams(draining());
    await this.#tail.stop();
  }

  async #onChanges(changes: Changes, afresh: boolean): Promise<void> {
    if (this.#state !== undefined && !afresh) {
      const change = this.#state.apply(changes, await this.#state.prepare(changes));
      this.#streams?.hub.publish(change);
      this.#streams?.feeds.publish();
      for (const market of change.turned) this.#logTurned(market);
      return;
    }
    const state = await LiveState.create(changes, this.#limits);
    this.#forget();
    this.#isEmpty = false;
    if (!this.#draining) {
      const hub = new Hub(state, this.#log, this.#depthTotals);
      this.#streams = { hub, feeds: new Feeds(this.#limits, this.#log, this.#feedTotals) };
    }
    this.#state = state;
    const { chainId, height } = changes.progress;
    this.#log.info({ chain: chainId, height: String(height), markets: state.announced.length }, "read the state");
    for (const market of state.announced) if (market.stale) this.#logTurned(market);
    for (const listener of this.#listeners) listener(true);
  }

  #logTurned({ id, stale }: LiveMarket): void {
    if (stale) this.#log.warn({ market: id }, "market is stale: it has no depth before its venue's next snapshot");
    else this.#log.info({ market: id }, "market is no longer stale");
  }

  #onEmpty(): void {
    if (this.#isEmpty) return;
    this.#isEmpty = true;
    const isNew = this.#state === undefined;
    this.#log.warn(`the database has no block ${isNew ? "yet" : "any more"}; waiting for marketd load`);
    this.#forget();
  }

  /** The database holds another store now: drops the state in memory, and ends the streams. */
  #forget(): void {
    if (this.#state === undefined) return;
    this.#state = undefined;
    this.#endStreams(chainChanged());
    for (const listener of this.#listeners) listener(false);
  }

  #endStreams(failure: Failure): void {
    const streams = this.#streams;
    this.#streams = undefined;
    streams?.feeds.end(failure);
    streams?.hub.end(failure);
  }
}

/** UNAVAILABLE, before the first snapshot. */
function notReady(): Failure {
  return unavailable("the service has nothing to answer from yet; try again", "NOT_READY", liveRetryAfterMs);
}

/** Whether a reader may hold a book of a stale market from an earlier stream. */
function mayHold(market: LiveMarket, { entry, mayHoldBooks = false }: StreamOptions): boolean {
  return entry === undefined ? mayHoldBooks : entry.held.has(market);
}

/** UNAVAILABLE, because the database holds another store. */
export function chainChanged(): Failure {
  const message = "the service's database now holds another chain, or nothing; open the stream again";
  const parts = { reason: "CHAIN_CHANGED", retryAfterMs: liveRetryAfterMs, voidsPlaces: true };
  return new Failure("unavailable", message, parts);
}

/** UNAVAILABLE, because the process ends. */
export function draining(): Failure {
  return unavailable("the service is shutting down; call again", "DRAINING", liveRetryAfterMs);
}

/** Seconds with three decimals. */
function toMilliseconds(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : Math.round(seconds * 1000) / 1000;
}
