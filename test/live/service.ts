import { type Service, startService } from "../../src/commands/service.js";
import type { ServiceConfig } from "../../src/config.js";
import type { WorkerContext } from "../../src/runtime/worker.js";
import type { ReadinessState } from "../../src/runtime/worker-messages.js";
import { createLog, type Log } from "../../src/telemetry/log.js";
import { createMetrics, type Metrics } from "../../src/telemetry/metrics.js";
import { listening } from "../support/listening.js";

/** What a worker knows of all workers if it is the only one. */
export function lonelyWorker(state: () => ReadinessState, metrics: Metrics): WorkerContext {
  return { readinessOfAll: state, metricsOfAll: () => metrics.metrics(), onReadiness: () => {} };
}

/** A service that listens. */
export interface TestService extends Service {
  /** Without base path. */
  readonly url: string;
}

/** A service over a store, on a free port. */
export async function startTestService(
  databaseUrl: string,
  config: Partial<ServiceConfig> = {},
  log: Log = createLog("silent"),
): Promise<TestService> {
  const metrics = createMetrics();
  const service: Service = await startService({
    config: {
      listen: { host: "127.0.0.1", port: 0 },
      adminListen: undefined,
      basePath: "",
      tls: undefined,
      corsOrigins: ["*"],
      trustedProxies: [],
      workers: 1,
      pollIntervalMs: 5,
      heartbeatMs: 15_000,
      stalledReaderMs: 300_000,
      streamsMax: 20_000,
      streamsPerAddressMax: 1_000,
      requestTimeoutMs: 30_000,
      drainMs: 1_000,
      ...config,
    },
    databaseUrl,
    log,
    metrics,
    worker: lonelyWorker(() => service.state(), metrics),
  });
  const { url, stop } = await listening(service.accept, config.tls !== undefined);
  const drain = (): Promise<void> => {
    stop();
    return service.drain();
  };
  return { ...service, url, drain };
}
