/**
 * How a process follows the database and feeds its streams. All values can be overridden. Stalled readers are handled
 * by transport.
 */
export interface LiveLimits {
  /** Interval between polls of the loader's progress while a block may come. */
  readonly pollIntervalMs: number;
  /**
   * How long the database may be silent before another connection is tried. Doubled up to {@link
   * LiveLimits.silenceMaxMs} while that does not help: then it is slow, not dead.
   */
  readonly silenceMinMs: number;
  readonly silenceMaxMs: number;
  /** The longest pause between attempts to reach the database, doubled from the poll interval. */
  readonly reconnectMaxMs: number;
  /** The longest silence on a stream; then an empty message is sent. */
  readonly heartbeatMs: number;
  /** Interval between checks for silent streams. */
  readonly sweepIntervalMs: number;
  /**
   * How long subscribers are woken in one slice. Sending what they took needs about twice as long again, and then other
   * work gets its turn.
   */
  readonly fanOutSliceMs: number;
  /** The size of a message of several markets, in its larger encoding. A single market's update may exceed it. */
  readonly messageBytesMax: number;
  /** Vanished levels that a book remembers, in addition to as many as it has levels. */
  readonly tombstonesSpareMax: number;
  /** Depth responses with different `maxDepth` that a market caches. */
  readonly depthResponsesMax: number;
  /**
   * The memory for all of those in a process, in bytes. Polling clients share a few small values of `maxDepth`; a thousand
   * markets with ten of 20 levels each fit. Whole books are not counted: each is kept once, as its levels are.
   */
  readonly depthResponsesBytesMax: number;
  /** Lists of market data with different selections that are cached. */
  readonly listResponsesMax: number;
}

/** The defaults. */
export const liveLimits: LiveLimits = {
  pollIntervalMs: 25,
  silenceMinMs: 1_000,
  silenceMaxMs: 15_000,
  reconnectMaxMs: 500,
  heartbeatMs: 15_000,
  sweepIntervalMs: 250,
  fanOutSliceMs: 1,
  messageBytesMax: 1 << 20,
  tombstonesSpareMax: 1_024,
  depthResponsesMax: 16,
  depthResponsesBytesMax: 1 << 28,
  listResponsesMax: 64,
};

/** Retry delay while the service is not ready, or shutting down. */
export const liveRetryAfterMs = 1_000;
