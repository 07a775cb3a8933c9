// The whole service, as `marketd serve --workers 1` runs it: `service.js DATABASE_URL`.
import { startService } from "../../src/commands/service.js";
import { createLog } from "../../src/telemetry/log.js";
import { createMetrics } from "../../src/telemetry/metrics.js";
import { lonelyWorker } from "../../test/live/service.js";
import { listening } from "../../test/support/listening.js";
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
const metrics = createMetrics();
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
  metrics,
  worker: lonelyWorker(() => service.state(), metrics),
  whenReady: true,
});

const { address } = await listening(service.accept);
serveOrders<object, Usage>({ port: address.port }, () => {
  globalThis.gc?.();
  const { rss, heapUsed } = process.memoryUsage();
  const { user, system } = process.cpuUsage();
  return { residentBytes: rss, heapBytes: heapUsed, cpuMicros: user + system };
});
