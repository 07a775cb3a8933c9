/** What the well-behaved client is started with. */
export interface BystanderOrder {
  readonly port: number;
  readonly adminUrl: string;
  /** Of a bare server: the part of the latency of health that is not the service's. */
  readonly bareUrl: string;
  readonly marketId: string;
}

/** The kinds of calls it makes. */
export const probes = [
  "kept connection",
  "new connection",
  "gRPC",
  "health",
  "bare server",
  "ledger page",
  "pipelining",
] as const;

/** One of {@link probes}. */
export type Probe = (typeof probes)[number];

/** What became of one kind of call since the last report. */
export interface ProbeReading {
  readonly probe: Probe;
  /** Milliseconds of each call, those that failed included. */
  readonly latenciesMs: readonly number[];
  /** Calls that the service refused honestly: 503, 429 or their gRPC codes, with a time to retry. */
  readonly refused: number;
  /** What else was not a response: each in a few words. */
  readonly failures: readonly string[];
}
