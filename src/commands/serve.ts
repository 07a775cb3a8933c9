import { availableParallelism } from "node:os";
import type { ServeConfig, ServiceConfig } from "../config.js";
import { createLog, type Log, type LogLevel } from "../telemetry/log.js";
import { withDatabase } from "./database-choice.js";
import { untilStopped } from "./stop-signal.js";

/** Serves until SIGTERM or SIGINT, then lets clients go. @throws OperatorError when it cannot start */
export async function serve(config: ServeConfig): Promise<void> {
  const log = createLog(config.logLevel);
  await withDatabase(config.database, log, async (databaseUrl) => {
    const stop = untilStopped();
    const service = await startServing(config, databaseUrl, config.logLevel, log);
    process.stderr.write(`marketd: serving on ${service.url}${config.basePath}\n`);
    const signal = await stop;
    log.info({ signal }, "draining");
    await service.drain();
  });
}

/** One process or several, as the settings say. @throws OperatorError when they cannot start */
export async function startServing(
  config: ServiceConfig,
  databaseUrl: string,
  logLevel: LogLevel,
  log: Log,
): Promise<{ readonly url: string; drain(): Promise<void> }> {
  const workers = config.workers === 0 ? availableParallelism() : config.workers;
  // Each is imported only when it is needed: a primary starts its workers sooner, and stays small.
  if (workers > 1) {
    const { startCluster } = await import("./cluster.js");
    return startCluster({ config, databaseUrl, logLevel, workers, log });
  }
  const [{ startService }, { createMetrics }] = await Promise.all([
    import("./service.js"),
    import("../telemetry/metrics.js"),
  ]);
  return startService({ config, databaseUrl, log, metrics: createMetrics() });
}
