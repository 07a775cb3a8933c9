import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import { type OpenApi, openApi, untilReady } from "../api/open-api.js";
import type { ServiceConfig } from "../config.js";
import { OperatorError } from "../domain/operator-error.js";
import { connectionsOfWorker, descriptorLimit } from "../runtime/descriptors.js";
import { listenError } from "../runtime/listen-error.js";
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
  /** Set for a worker, whose connections come through {@link Service.accept}. Otherwise this process listens itself. */
  readonly worker?: WorkerContext;
  /** Resolve only once the state is loaded. */
  readonly whenReady?: boolean;
}

/** One serving process. */
export interface Service extends Omit<WorkerService, "metrics"> {
  readonly url: string;
}

/**
 * Follows the database and serves it. While the database is unreachable or empty, the port is open.
 * @throws OperatorError if the port or a certificate is unavailable, or the database has another version
 */
export async function startService(options: ServiceOptions): Promise<Service> {
  const { config, log, metrics } = options;
  addProcessMetrics(metrics);
  const { pollIntervalMs, heartbeatMs } = config;
  const { databaseUrl } = options;
  const opened = await openApi({ databaseUrl, log, metrics, limits: { pollIntervalMs, heartbeatMs } });
  const { live } = opened;
  let draining = false;
  const state = (): ReadinessState => (draining ? "draining" : live.ready ? "ready" : "loading");
  live.onReadiness(() => options.worker?.onReadiness(state()));
  if (options.whenReady === true) await untilReady(live);
  const connectionsMax = connectionsOfWorker(descriptorLimit(), defaultTransportLimits.connectionsMax);
  const server = await listen(options, opened, state, connectionsMax).catch(async (error: unknown) => {
    await opened.close();
    throw error;
  });
  return {
    url: server.url,
    connectionsMax,
    state,
    accept: (socket) => server.accept(socket),
    drain: async () => {
      draining = true;
      options.worker?.onReadiness("draining");
      await server.drain(config.drainMs);
      await opened.close();
    },
  };
}

async function listen(
  options: ServiceOptions,
  { methods, live }: OpenApi,
  readiness: () => ReadinessState,
  connectionsMax: number,
): Promise<RunningServer> {
  const { config, log, metrics, worker } = options;
  const { streamsMax, streamsPerAddressMax, stalledReaderMs, requestTimeoutMs } = config;
  try {
    return await startServer({
      api: methods,
      listen: config.listen,
      ...(config.tls === undefined ? {} : { tls: readTls(config.tls, options.files) }),
      basePath: config.basePath,
      log,
      metrics,
      ...(worker !== undefined && {
        handedConnections: true,
        metricsText: { metrics: worker.metricsOfAll, contentType: metrics.contentType },
      }),
      servesMetrics: config.adminListen === undefined,
      readiness: worker?.readinessOfAll ?? readiness,
      limits: { connectionsMax, streamsMax, streamsPerAddressMax, stalledReaderMs, requestTimeoutMs },
      ...(config.corsOrigins.includes("*") ? {} : { corsOrigins: config.corsOrigins }),
      trustedProxies: config.trustedProxies,
      staleness: () => live.blockAgeSeconds(),
      newestBlock: () => live.newestBlock(),
      status: () => live.status(),
      files: new Map([...explorerFiles(), ...referenceFiles(config.basePath)]),
    });
  } catch (error) {
    throw listenError(error, `${config.listen.host}:${config.listen.port}`);
  }
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
