import { Registry } from "prom-client";

/** Where modules register metrics. Modules receive a registry and never use the global one. */
export type Metrics = Registry;

/** Metrics in the text format of Prometheus, of one registry or of several processes. */
export type MetricsText = Pick<Registry, "metrics" | "contentType">;

/** An empty registry. A process creates one and passes it to its modules. */
export function createMetrics(): Metrics {
  return new Registry();
}
