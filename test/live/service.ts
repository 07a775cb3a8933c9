import { type Service, startService } from "../../src/commands/service.js";
import type { ServiceConfig } from "../../src/config.js";
import { createLog, type Log } from "../../src/telemetry/log.js";
import { createMetrics } from "../../src/telemetry/metrics.js";

/** A service over a store, on a free port. */
export function startTestService(
  databaseUrl: string,
  config: Partial<ServiceConfig> = {},
  log: Log = createLog("silent"),
): Promise<Service> {
  return startService({
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
    metrics: createMetrics(),
  });
}
