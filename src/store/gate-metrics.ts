import { Counter, Gauge } from "prom-client";
import type { Metrics } from "../telemetry/metrics.js";
import { type DatabaseGate, refusalReasons } from "./database-gate.js";

/** Registers metrics of running, waiting and refused requests. */
export function registerGateMetrics(metrics: Metrics, gate: DatabaseGate): void {
  const gauges = [
    new Gauge({
      name: "marketd_database_requests_running",
      help: "Requests at the database now.",
      registers: [],
      collect() {
        this.set(gate.running);
      },
    }),
    new Gauge({
      name: "marketd_database_requests_waiting",
      help: "Requests that wait for the database now.",
      registers: [],
      collect() {
        this.set(gate.waiting);
      },
    }),
  ];
  const refused = new Counter({
    name: "marketd_database_requests_refused_total",
    help: "Requests refused because too many wait for the database, by the reason of their error.",
    labelNames: ["reason"],
    registers: [],
    collect() {
      this.reset();
      for (const reason of refusalReasons) this.inc({ reason }, gate.refused(reason));
    },
  });
  for (const metric of [...gauges, refused]) metrics.registerMetric(metric);
}
