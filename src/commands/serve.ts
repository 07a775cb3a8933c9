import { existsSync } from "node:fs";
import type { Socket } from "node:net";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import type { ServeConfig, ServiceConfig } from "../config.js";
import { Primary, type ServiceUrls } from "../runtime/primary.js";
import { HangUps, untilStopped } from "../runtime/stop-signal.js";
import { workerFlags } from "../runtime/tuning/worker-flags.js";
import { createLog, type Log } from "../telemetry/log.js";
import type { refuseConnection } from "../transport/connections/connection-admission.js";
import { defaultTransportLimits } from "../transport/options.js";
import { withDatabase } from "./database-choice.js";

/**
 * Serves until SIGTERM or SIGINT, then drains; SIGHUP replaces the workers. `argv`: the command's arguments.
 * @throws OperatorError if it cannot start
 */
export async function serve(config: ServeConfig, argv: readonly string[]): Promise<void> {
  const log = createLog(config.logLevel);
  const stop = untilStopped();
  const hangUps = new HangUps();
  await withDatabase(config.database, log, async (url) => {
    const databaseUrl = config.database.kind === "embedded" ? url : undefined;
    const service = await startServing(config, { argv, databaseUrl, log });
    for (const line of servingOn(service, config)) process.stderr.write(`marketd: ${line}\n`);
    hangUps.each(() => void service.restartWorkers());
    const signal = await stop;
    log.info({ signal }, "draining");
    await service.drain();
  });
}

function servingOn({ url, adminUrl }: ServiceUrls, { basePath }: ServiceConfig): string[] {
  const admin = adminUrl === undefined ? [] : [`health and metrics on ${adminUrl}`];
  return [`serving on ${url}${basePath}`, ...admin];
}

/** Options of {@link startServing} besides the settings. */
export interface ServingOptions {
  /** Arguments of the command, without node and script; each worker parses them itself. */
  readonly argv: readonly string[];
  /** The database URL, if the arguments do not name a database. */
  readonly databaseUrl: string | undefined;
  readonly log: Log;
}

/** A running service, as the command sees it. */
export interface Serving extends ServiceUrls {
  /** Replaces the workers one by one; never rejects. */
  restartWorkers(): Promise<void>;
  drain(): Promise<void>;
}

/** Starts a primary and its workers. @throws OperatorError if they cannot start */
export async function startServing(config: ServiceConfig, options: ServingOptions): Promise<Serving> {
  const { listen, adminListen, drainMs } = config;
  const workers = config.workers === 0 ? availableParallelism() : config.workers;
  const tls = config.tls !== undefined;
  const { connectionsMax } = defaultTransportLimits;
  const program = workerProgram();
  let sendRefusal: typeof refuseConnection | undefined;
  const refuse = (socket: Socket): void => {
    // With TLS, a reason would need a handshake.
    if (tls || sendRefusal === undefined) socket.destroy();
    else sendRefusal(socket, "TOO_MANY_CONNECTIONS");
  };
  const flags = config.tuning ? workerFlags : [];
  const settings = { program, flags, listen, adminListen, tls, workers, drainMs, connectionsMax, refuse };
  const primary = new Primary({ ...options, ...settings });
  const starting = primary.start();
  starting.catch(() => {});
  // Loaded while the workers start, which takes longer.
  sendRefusal = (await import("../transport/connections/connection-admission.js")).refuseConnection;
  const urls = await starting;
  return { ...urls, restartWorkers: () => primary.restartWorkers(), drain: () => primary.drain() };
}

/**
 * The worker program of the newest build: each build has its own folder, and the link `dist` beside it points to the
 * newest. A build that was copied under another name has only its own worker.
 */
function workerProgram(): string {
  const newest = fileURLToPath(new URL("../../../dist/src/commands/worker.js", import.meta.url));
  return existsSync(newest) ? newest : fileURLToPath(new URL("./worker.js", import.meta.url));
}
