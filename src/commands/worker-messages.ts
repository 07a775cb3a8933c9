import type { Registry } from "prom-client";
import type { ServiceConfig } from "../config.js";
import type { LogLevel } from "../telemetry/log.js";

/** What one serving process is, or what all of them are together. */
export type ReadinessState = "loading" | "ready" | "draining";

/** The numbers of one process, as the metrics library hands them over. */
export type MetricsReading = Awaited<ReturnType<Registry["getMetricsAsJSON"]>>;

/** What a worker is told. */
export type ToWorker =
  | {
      readonly kind: "start";
      readonly config: ServiceConfig;
      readonly databaseUrl: string;
      readonly logLevel: LogLevel;
      /** Take connections only once ready: others are, and would answer better. */
      readonly listenWhenReady: boolean;
    }
  /** The state of all workers together, which is what `/readyz` answers with. */
  | { readonly kind: "readiness"; readonly state: ReadinessState }
  /** Tell your own numbers. */
  | { readonly kind: "read_metrics"; readonly id: number }
  /** Everybody's metrics, in answer to `metrics_wanted`. */
  | { readonly kind: "metrics"; readonly id: number; readonly text: string }
  | { readonly kind: "drain" };

/** What a worker says. */
export type FromWorker =
  /** It hears now; what was said before is lost. */
  | { readonly kind: "awake" }
  /** It listens; `url` names the port that all share. Its state counts from now on. */
  | { readonly kind: "listening"; readonly url: string; readonly state: ReadinessState }
  | { readonly kind: "readiness"; readonly state: ReadinessState }
  /** Someone asked it for the metrics of all. */
  | { readonly kind: "metrics_wanted"; readonly id: number }
  /** Its own numbers, in answer to `read_metrics`. */
  | { readonly kind: "metrics_read"; readonly id: number; readonly reading: MetricsReading }
  /** It cannot start: the operator must mend something. It waits to be ended. */
  | { readonly kind: "failed"; readonly message: string };
