import { addCounter, addGauge, type Metrics } from "../telemetry/metrics.js";
import type { DepthTotals } from "./cohort.js";
import { type FeedKind, type FeedTotals, feedKinds } from "./feed.js";
import type { LiveState } from "./live-state.js";
import type { ReaderCounts } from "./reader-stream.js";
import type { Tail } from "./tail.js";

/** What the metrics read. */
export interface Measured {
  newest(): LiveState | undefined;
  /** Of depth streams, since the start. */
  readonly depthTotals: DepthTotals;
  depthCounts(): ReaderCounts;
  /** Of the streams of market data, trades and candles, since the start. */
  readonly feedTotals: Readonly<Record<FeedKind, FeedTotals>>;
  feedCounts(kind: FeedKind): ReaderCounts;
}

/** The age of the newest block by this machine's clock, in seconds; undefined before the first. */
export function blockAgeSeconds(state: LiveState | undefined): number | undefined {
  return state === undefined ? undefined : Date.now() / 1000 - Number(state.progress.timeNs / 1_000_000n) / 1000;
}

/** The time since the database last answered, in seconds; undefined before it ever did. */
export function databaseSilenceSeconds({ contactedAt }: Tail): number | undefined {
  return contactedAt === undefined ? undefined : (performance.now() - contactedAt) / 1000;
}

/** Registers metrics of progress, freshness and streams. Values are computed on collection. */
export function registerLiveMetrics(metrics: Metrics, live: Measured, tail: Tail): void {
  // Workers follow the same chain, so these values are not added up.
  const gauge = (name: string, help: string, value: () => number, aggregator: "sum" | "max" = "max") =>
    addGauge(metrics, name, help, value, { aggregator });
  gauge("marketd_block_height", "Height of the newest block read, 0 before the first.", () =>
    Number(live.newest()?.progress.height ?? 0n),
  );
  gauge("marketd_stream_sequence", "Stream sequence number of the last event read.", () =>
    Number(live.newest()?.progress.streamSequence ?? 0n),
  );
  gauge(
    "marketd_block_age_seconds",
    "How old the newest block read is, by this machine's clock.",
    () => blockAgeSeconds(live.newest()) ?? 0,
  );
  gauge(
    "marketd_database_silence_seconds",
    "Since the database last answered, -1 before it ever did.",
    () => databaseSilenceSeconds(tail) ?? -1,
  );
  gauge(
    "marketd_markets_stale",
    "Venues' markets whose books are not right before their next snapshot.",
    () => live.newest()?.counts.staleMarkets ?? 0,
  );
  gauge("marketd_depth_stream_subscribers", "Open depth streams.", () => live.depthCounts().subscribers, "sum");
  gauge(
    "marketd_depth_stream_lagging",
    "Depth streams for which updates wait.",
    () => live.depthCounts().lagging,
    "sum",
  );
  const messagesHelp = "Messages handed to depth streams, heartbeats among them.";
  addCounter(metrics, "marketd_depth_stream_messages_total", messagesHelp, () => live.depthTotals.messages);
  registerFeedMetrics(metrics, live);
}

/** Metrics of the streams of market data, trades and candles. */
function registerFeedMetrics(metrics: Metrics, live: Measured): void {
  const label = { label: "stream" } as const;
  const now = (read: (counts: ReaderCounts) => number) => () =>
    feedKinds.map((kind) => [kind, read(live.feedCounts(kind))] as const);
  const total = (read: (totals: FeedTotals) => number) => () =>
    feedKinds.map((kind) => [kind, read(live.feedTotals[kind])] as const);
  const open = now(({ subscribers }) => subscribers);
  addGauge(metrics, "marketd_market_stream_subscribers", "Open streams of market data, trades, candles.", open, label);
  const lagging = now((counts) => counts.lagging);
  addGauge(metrics, "marketd_market_stream_lagging", "Such streams for which messages wait.", lagging, label);
  const messages = total((totals) => totals.messages);
  const messagesHelp = "Messages handed to such streams, heartbeats among them.";
  addCounter(metrics, "marketd_market_stream_messages_total", messagesHelp, messages, label);
  const ended = total(({ endedBehind }) => endedBehind);
  const endedHelp = "Such streams that were ended because their reader was too far behind.";
  addCounter(metrics, "marketd_market_stream_ended_behind_total", endedHelp, ended, label);
}
