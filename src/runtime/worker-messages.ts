import type { Registry } from "prom-client";

/**
 * Version of the messages between a primary and its workers. A primary outlives many builds of the program, so raise it
 * only when an older primary and a newer worker would misunderstand each other: such a worker refuses to start. Each side
 * ignores kinds that it does not know.
 */
export const workerProtocol = 1;

/** State of one worker, or of all of them together. */
export type ReadinessState = "loading" | "ready" | "draining";

/** The metrics of one process, as the metrics library hands them over. */
export type MetricsReading = Awaited<ReturnType<Registry["getMetricsAsJSON"]>>;

/** How a worker is to start. Everything else it reads itself, in its own version of the program. */
export interface StartOrder {
  readonly kind: "start";
  /** {@link workerProtocol} of the primary. */
  readonly protocol: number;
  /** Arguments of the command, without node and script. */
  readonly argv: readonly string[];
  /** The database, where the arguments do not name it. */
  readonly databaseUrl: string | null;
  /** Take connections only once ready, because other workers are. */
  readonly serveWhenReady: boolean;
}

/** From the primary to a worker. A `connection` comes with a socket. */
export type ToWorker =
  | StartOrder
  | { readonly kind: "connection" }
  /** The worker answers `pong` as soon as its event loop turns. */
  | { readonly kind: "ping"; readonly id: number }
  /** State of all workers together, which is what `/readyz` answers. */
  | { readonly kind: "readiness"; readonly state: ReadinessState }
  /** Asks for `metrics_read`. */
  | { readonly kind: "read_metrics"; readonly id: number }
  /** Metrics of all workers, in answer to `metrics_wanted`. */
  | { readonly kind: "metrics"; readonly id: number; readonly text: string }
  | { readonly kind: "drain" };

/** From a worker to the primary. */
export type FromWorker =
  /** The program is loaded; the primary answers `start`. */
  | { readonly kind: "awake" }
  /** It takes connections from now on, and its state counts. */
  | { readonly kind: "serving"; readonly state: ReadinessState }
  | { readonly kind: "readiness"; readonly state: ReadinessState }
  /** It has the connection. `full`: it has no descriptor for another one. */
  | { readonly kind: "taken"; readonly full: boolean }
  /** It was full and is not any more. */
  | { readonly kind: "has_capacity" }
  | { readonly kind: "pong"; readonly id: number; readonly full: boolean }
  /** A client asked this worker for the metrics of all. */
  | { readonly kind: "metrics_wanted"; readonly id: number }
  /** Its own metrics: in answer to `read_metrics`, and unasked before it ends. */
  | { readonly kind: "metrics_read"; readonly id: number; readonly reading: MetricsReading }
  /** It cannot start, for a reason that the operator can change. The primary ends it. */
  | { readonly kind: "failed"; readonly message: string };
