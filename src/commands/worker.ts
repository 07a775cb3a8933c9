import { OperatorError } from "../domain/operator-error.js";
import { createLog } from "../telemetry/log.js";
import { createMetrics } from "../telemetry/metrics.js";
import { type Service, startService } from "./service.js";
import type { FromWorker, ReadinessState, ToWorker } from "./worker-messages.js";

const metrics = createMetrics();
const metricsWaiters = new Map<number, (text: string) => void>();
let metricsRequests = 0;
let together: ReadinessState = "loading";
let service: Service | undefined;

function say(message: FromWorker): void {
  if (process.connected) process.send?.(message);
}

/** The metrics of all workers, by way of the primary. Without a primary, this process ends. */
function metricsOfAll(): Promise<string> {
  metricsRequests += 1;
  const id = metricsRequests;
  return new Promise((resolve) => {
    metricsWaiters.set(id, resolve);
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

async function readMetrics(id: number): Promise<void> {
  say({ kind: "metrics_read", id, reading: await metrics.getMetricsAsJSON() });
}

async function drain(): Promise<void> {
  await service?.drain();
  process.exit(0);
}

process.on("message", (message: ToWorker) => {
  switch (message.kind) {
    case "start":
      void start(message);
      break;
    case "readiness":
      together = message.state;
      break;
    case "read_metrics":
      void readMetrics(message.id);
      break;
    case "metrics":
      metricsWaiters.get(message.id)?.(message.text);
      metricsWaiters.delete(message.id);
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

say({ kind: "awake" });
