import { Gauge } from "prom-client";
import type { Metrics } from "../../telemetry/metrics.js";

/** Registers the metric with a label for each adjustment of Node and V8, `on` or `off`. */
export function registerTuningInfo(metrics: Metrics, inEffect: Readonly<Record<string, boolean>>): void {
  const labels = Object.entries(inEffect).map(([name, isOn]) => [name, isOn ? "on" : "off"]);
  const info = new Gauge({
    name: "marketd_tuning_info",
    help: "1. The labels name the adjustments of Node and V8 that are in effect.",
    labelNames: Object.keys(inEffect),
    // Workers with the same adjustments share one series.
    aggregator: "max",
    registers: [metrics],
  });
  info.set(Object.fromEntries(labels), 1);
}
