import type { Registry } from "prom-client";

/**
 * The version of the messages between a primary and its workers. A primary outlives many builds. Raise it only if an
 * older primary and a newer worker would misunderstand each other: such a worker refuses to start. Both ignore unknown
 * kinds.
 */
export const workerProtocol = 1;

/** The state of one worker, or of all together. */
export type ReadinessState = "loading" | "ready" | "draining";

/** The metrics of one process, in the metrics library's format. */
export type MetricsReading = Awaited<ReturnType<Registry["getMetricsAsJSON"]>>;

/** How a worker starts. It reads all other settings itself, in its own version of the program. */
export interface StartOrder {
  readonly kind: "start";
  /** {@link workerProtocol} of the primary. */
  readonly protocol: number;
  /** Arguments of the command, without node and script. */
  readonly argv: readonly string[];
  /** The database URL, if the arguments do not name a database. */
  readonly databaseUrl: string | null;
  /**
   * Texts of files that the settings name, by their paths, which the worker uses in place of the files. Missing: the
   * primary could not read the file, or is older.
   */
  readonly files?: Readonly<Record<string, string>>;
  /** Take connections only when ready, because other workers serve. */
  readonly serveWhenReady: boolean;
}

/** From the primary to a worker. A `connection` carries a socket. */
export type ToWorker =
  | StartOrder
  | { readonly kind: "connection" }
  /** The worker replies with `pong` on the next turn of its event loop. */
  | { readonly kind: "ping"; readonly id: number }
  /** The state of all workers together, as `/readyz` reports it. */
  | { readonly kind: "readiness"; readonly state: ReadinessState }
  /** Asks for `metrics_read`. */
  | { readonly kind: "read_metrics"; readonly id: number }
  /** Metrics of all workers, in reply to `metrics_wanted`. */
  | { readonly kind: "metrics"; readonly text: string }
  | { readonly kind: "drain" };

/** From a worker to the primary. */
export type FromWorker =
  /** The program is loaded; the primary replies with `start`. */
  | { readonly kind: "awake" }
  /** It takes connections from now on, and its state counts. */
  | { readonly kind: "serving"; readonly state: ReadinessState }
  | { readonly kind: "readiness"; readonly state: ReadinessState }
  /** It has the connection. `full`: it has no descriptor for another one. */
  | { readonly kind: "taken"; readonly full: boolean }
  /** It was full and no longer is. */
  | { readonly kind: "has_capacity" }
  | { readonly kind: "pong"; readonly id: number; readonly full: boolean }
  /** A client asked this worker for the metrics of all. */
  | { readonly kind: "metrics_wanted" }
  /** Its own metrics: in reply to `read_metrics`, and unrequested before it ends. */
  | { readonly kind: "metrics_read"; readonly id: number; readonly reading: MetricsReading }
  /** It cannot start, for a reason that the operator can correct. The primary ends it. */
  | { readonly kind: "failed"; readonly message: string };
