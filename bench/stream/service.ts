// The whole service, as `marketd serve --workers 1` runs it: `service.js DATABASE_URL`.
import { startService } from "../../src/commands/service.js";
import { createLog } from "../../src/telemetry/log.js";
import { createMetrics } from "../../src/telemetry/metrics.js";
import { serveOrders } from "./child.js";
import { pollIntervalMs } from "./delay.js";

/** What the process uses, after its garbage is collected. */
export interface Usage {
  readonly residentBytes: number;
  /** Of JavaScript's own objects. */
  readonly heapBytes: number;
  /** CPU time of all threads since the start. */
  readonly cpuMicros: number;
}

const anyNumber = 1_000_000;
const [databaseUrl = ""] = process.argv.slice(2);
const service = await startService({
  config: {
    listen: { host: "127.0.0.1", port: 0 },
    adminListen: undefined,
    basePath: "",
    tls: undefined,
    corsOrigins: ["*"],
    trustedProxies: [],
    workers: 1,
    pollIntervalMs,
    heartbeatMs: 15_000,
    stalledReaderMs: 300_000,
    streamsMax: anyNumber,
    streamsPerAddressMax: anyNumber,
    requestTimeoutMs: 30_000,
    drainMs: 0,
  },
  databaseUrl,
  log: createLog("warn"),
  metrics: createMetrics(),
  whenReady: true,
});

serveOrders<object, Usage>({ port: Number(new URL(service.url).port) }, () => {
  globalThis.gc?.();
  const { rss, heapUsed } = process.memoryUsage();
  const { user, system } = process.cpuUsage();
  return { residentBytes: rss, heapBytes: heapUsed, cpuMicros: user + system };
});
