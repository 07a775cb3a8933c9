import { Counter, collectDefaultMetrics, Gauge, Registry } from "prom-client";

/** Where modules register metrics. Modules receive a registry and never use the global one. */
export type Metrics = Registry;

/** Metrics in the text format of Prometheus, of one registry or of several processes. */
export type MetricsText = Pick<Registry, "metrics" | "contentType">;

/** An empty registry. A process creates one and passes it to its modules. */
export function createMetrics(): Metrics {
  return new Registry();
}

/**
 * Interval of the timer whose gaps are the metrics `marketd_nodejs_eventloop_lag_…`, which include it. At prom-client's
 * 10 ms, the timer was half of what a worker at rest used.
 */
export const eventLoopTimerMs = 50;

/** Registers those of the process that prom-client collects, without gauges whose names end as those of counters. */
export function addProcessMetrics(metrics: Metrics): void {
  const prefix = "marketd_";
  collectDefaultMetrics({ register: metrics, prefix, eventLoopMonitoringPrecision: eventLoopTimerMs });
  // What they add up is in the metrics of the same names without `_total`.
  for (const name of ["handles", "requests", "resources"]) {
    metrics.removeSingleMetric(`${prefix}nodejs_active_${name}_total`);
  }
}

/** The value of a metric, or one for each value of its labels; undefined: it has none now. */
type Reading = number | undefined | Iterable<readonly [labels: string | readonly string[], value: number]>;

/** What else there is to say of a metric. */
interface MetricOptions {
  /** The name of its label, or the names of several. */
  readonly label?: string | readonly string[];
  /** What the values of several processes become; default their sum. */
  readonly aggregator?: "sum" | "max";
}

/** Registers a gauge that is read when metrics are collected. */
export function addGauge(
  metrics: Metrics,
  name: string,
  help: string,
  read: () => Reading,
  { label = [], aggregator = "sum" }: MetricOptions = {},
): void {
  const labelNames = [label].flat();
  const gauge: Gauge = new Gauge({
    ...{ name, help, aggregator, labelNames },
    registers: [metrics],
    collect: () => fill(gauge, read(), labelNames),
  });
}

/** Registers a counter that is read when metrics are collected. */
export function addCounter(
  metrics: Metrics,
  name: string,
  help: string,
  read: () => Reading,
  { label = [] }: Pick<MetricOptions, "label"> = {},
): void {
  const labelNames = [label].flat();
  const counter: Counter = new Counter({
    ...{ name, help, labelNames },
    registers: [metrics],
    collect: () => fill(counter, read(), labelNames),
  });
}

function fill(metric: Gauge | Counter, reading: Reading, labelNames: readonly string[]): void {
  metric.reset();
  if (reading === undefined) metric.remove();
  else if (typeof reading === "number") metric.inc(reading);
  else {
    for (const [labels, value] of reading) {
      const texts = [labels].flat();
      metric.inc(Object.fromEntries(labelNames.map((name, i) => [name, texts[i] ?? ""])), value);
    }
  }
}
