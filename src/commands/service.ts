import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import { type OpenApi, openApi, untilReady } from "../api/open-api.js";
import type { ServiceConfig } from "../config.js";
import { OperatorError } from "../domain/operator-error.js";
import { connectionsOfWorker, descriptorLimit } from "../runtime/descriptors.js";
import type { WorkerContext, WorkerService } from "../runtime/worker.js";
import type { ReadinessState } from "../runtime/worker-messages.js";
import type { Log } from "../telemetry/log.js";
import { addProcessMetrics, type Metrics } from "../telemetry/metrics.js";
import { defaultTransportLimits } from "../transport/options.js";
import { type RunningServer, startServer } from "../transport/server.js";
import { explorerFiles, referenceFiles } from "./web-files.js";

/** Options of a serving process. */
export interface ServiceOptions {
  readonly config: ServiceConfig;
  readonly databaseUrl: string;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Texts of files that take the place of what is at their paths. */
  readonly files?: Readonly<Record<string, string>>;
  readonly worker: WorkerContext;
  /** Resolve only once the state is loaded. */
  readonly whenReady?: boolean;
}

/** One serving process. */
export type Service = Omit<WorkerService, "metrics">;

/**
 * Follows the database and serves it, also while the database is unreachable or empty.
 * @throws OperatorError if a certificate is unavailable, or the database has another version
 */
export async function startService(options: ServiceOptions): Promise<Service> {
  const { config, log, metrics, worker } = options;
  const tls = config.tls && readTls(config.tls, options.files);
  addProcessMetrics(metrics);
  const { pollIntervalMs, heartbeatMs } = config;
  const { databaseUrl } = options;
  const opened = await openApi({ databaseUrl, log, metrics, limits: { pollIntervalMs, heartbeatMs } });
  const { live } = opened;
  let draining = false;
  const state = (): ReadinessState => (draining ? "draining" : live.ready ? "ready" : "loading");
  live.onReadiness(() => worker.onReadiness(state()));
  if (options.whenReady === true) await untilReady(live);
  const connectionsMax = connectionsOfWorker(descriptorLimit(), defaultTransportLimits.connectionsMax);
  const server = serve(options, opened, tls, connectionsMax);
  return {
    connectionsMax,
    state,
    accept: (socket) => server.accept(socket),
    drain: async () => {
      draining = true;
      worker.onReadiness("draining");
      await server.drain(config.drainMs);
      await opened.close();
    },
  };
}

function serve(
  { config, log, metrics, worker }: ServiceOptions,
  { methods, live }: OpenApi,
  tls: ReturnType<typeof readTls> | undefined,
  connectionsMax: number,
): RunningServer {
  const { streamsMax, streamsPerAddressMax, stalledReaderMs, requestTimeoutMs } = config;
  return startServer({
    api: methods,
    ...(tls && { tls }),
    basePath: config.basePath,
    log,
    metrics,
    metricsText: { metrics: worker.metricsOfAll, contentType: metrics.contentType },
    servesMetrics: config.adminListen === undefined,
    readiness: worker.readinessOfAll,
    limits: { connectionsMax, streamsMax, streamsPerAddressMax, stalledReaderMs, requestTimeoutMs },
    ...(config.corsOrigins.includes("*") ? {} : { corsOrigins: config.corsOrigins }),
    trustedProxies: config.trustedProxies,
    staleness: () => live.blockAgeSeconds(),
    newestBlock: () => live.newestBlock(),
    status: () => live.status(),
    files: new Map([...explorerFiles(), ...referenceFiles(config.basePath)]),
  });
}

function readTls(
  { certificatePath, keyPath }: NonNullable<ServiceConfig["tls"]>,
  files: ServiceOptions["files"] = {},
): { certificate: string; key: string } {
  try {
    const textOf = (path: string) => files[path] ?? readFileSync(path, "utf8");
    const read = { certificate: textOf(certificatePath), key: textOf(keyPath) };
    createSecureContext({ cert: read.certificate, key: read.key });
    return read;
  } catch (error) {
    const message = `the TLS certificate or key cannot be used: ${(error as Error).message}`;
    throw new OperatorError(message, 1, error);
  }
}
