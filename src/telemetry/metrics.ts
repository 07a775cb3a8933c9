import { Registry } from "prom-client";

/** Where a module registers its counters, gauges and histograms. Modules receive one and never use the global one. */
export type Metrics = Registry;

/** Metrics in the text that Prometheus reads: a registry's, or those of several processes together. */
export type MetricsText = Pick<Registry, "metrics" | "contentType">;

/** An empty registry; a process makes one and hands it to its modules. */
export function createMetrics(): Metrics {
  return new Registry();
}
