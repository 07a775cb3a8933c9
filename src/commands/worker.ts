import { AggregatorRegistry } from "prom-client";
import { OperatorError } from "../domain/operator-error.js";
import { createLog } from "../telemetry/log.js";
import { createMetrics } from "../telemetry/metrics.js";
import { type Service, startService } from "./service.js";
import type { FromWorker, ReadinessState, ToWorker } from "./worker-messages.js";

/** Longest wait for the primary to gather everybody's metrics. */
const metricsTimeoutMs = 6_000;

const metrics = createMetrics();
const metricsWaiters = new Map<number, (text: string) => void>();
let metricsRequests = 0;
let together: ReadinessState = "loading";
let service: Service | undefined;

function say(message: FromWorker): void {
  if (process.connected) process.send?.(message);
}

/** The metrics of all workers, by way of the primary. */
function metricsOfAll(): Promise<string> {
  metricsRequests += 1;
  const id = metricsRequests;
  return new Promise((resolve) => {
    const settle = (text: string): void => {
      clearTimeout(timer);
      metricsWaiters.delete(id);
      resolve(text);
    };
    const timer = setTimeout(() => settle(""), metricsTimeoutMs);
    metricsWaiters.set(id, settle);
    say({ kind: "metrics_wanted", id });
  });
}

async function start(message: Extract<ToWorker, { kind: "start" }>): Promise<void> {
  const log = createLog(message.logLevel);
  try {
    service = await startService({
      config: message.config,
      databaseUrl: message.databaseUrl,
      log,
      metrics,
      metricsText: metricsOfAll,
      listenWhenReady: message.listenWhenReady,
      readinessOfAll: () => together,
      onReadiness: (state) => say({ kind: "readiness", state }),
    });
    say({ kind: "listening", url: service.url, state: service.state() });
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    say({ kind: "failed", message: error.message });
  }
}

async function drain(): Promise<void> {
  await service?.drain();
  process.exit(0);
}

AggregatorRegistry.setRegistries(metrics);
// Only an instance listens for the primary's question.
new AggregatorRegistry();

process.on("message", (message: ToWorker) => {
  switch (message.kind) {
    case "start":
      void start(message);
      break;
    case "readiness":
      together = message.state;
      break;
    case "metrics":
      metricsWaiters.get(message.id)?.(message.text);
      break;
    case "drain":
      void drain();
      break;
  }
});

// The primary decides when to drain: a signal to the whole process group reaches it too.
process.on("SIGTERM", () => {});
process.on("SIGINT", () => {});
// Without its primary a worker has no port and nobody who would replace it.
process.on("disconnect", () => process.exit(0));
