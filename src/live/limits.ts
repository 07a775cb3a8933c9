/**
 * How a service process follows the database and feeds its streams. All can be overridden. Readers that stall are the
 * business of the transport, which sees what they read.
 */
export interface LiveLimits {
  /** Between two looks at the loader's progress. */
  readonly pollIntervalMs: number;
  /**
   * How long the database may be silent while it is asked, before it is asked on another connection. Doubled up to the
   * second while that does not help, for then it is slow, not dead.
   */
  readonly silenceMinMs: number;
  readonly silenceMaxMs: number;
  /** Between two attempts to reach a database that is away: doubled from the poll interval up to this. */
  readonly reconnectMaxMs: number;
  /** The longest silence on a stream: an empty message is sent then. */
  readonly heartbeatMs: number;
  /** How often silent streams are looked for. */
  readonly sweepIntervalMs: number;
  /**
   * How long waking readers may go on before what they were given is sent, which takes about twice as long again, and
   * other work gets its turn.
   */
  readonly fanOutSliceMs: number;
  /** The size of a message of several markets, in its larger encoding. One market's update alone may exceed it. */
  readonly messageBytesMax: number;
  /** Vanished levels that a book remembers beyond as many as it has levels. */
  readonly tombstonesSpareMax: number;
  /** Depth responses of different `maxDepth` that a market keeps. */
  readonly depthResponsesMax: number;
  /** Lists of market data of different selections that are kept. */
  readonly listResponsesMax: number;
}

/** What holds where nothing else is said. */
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
  listResponsesMax: 64,
};

/** What a client is told to wait when the service is not ready, or on its way out. */
export const liveRetryAfterMs = 1_000;
