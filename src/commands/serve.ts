import { existsSync } from "node:fs";
import type { Socket } from "node:net";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import type { Config, ServiceConfig } from "../config.js";
import { Primary, type PrimaryOptions, type ServiceUrls } from "../runtime/primary.js";
import { HangUps, untilStopped } from "../runtime/stop-signal.js";
import { workerFlags } from "../runtime/worker-flags.js";
import { createLog, type Log } from "../telemetry/log.js";
import { defaultTransportLimits } from "../transport/options.js";
import { withDatabase } from "./database-choice.js";
import { withLog } from "./log-lines.js";

/**
 * Serves until SIGTERM or SIGINT, then drains; SIGHUP replaces the workers. `argv`: the command's arguments.
 * @throws OperatorError if it cannot start
 */
export async function serve(config: Config<"serve">, argv: readonly string[]): Promise<void> {
  const log = createLog(config.logLevel);
  const stop = untilStopped();
  const hangUps = new HangUps();
  const run = () =>
    withDatabase(config.database, log, async (url) => {
      const databaseUrl = config.database.kind === "embedded" ? url : undefined;
      const serving = await startServing(config, { argv, databaseUrl, log }, stop);
      if (serving === undefined) return log.info({ signal: await stop }, "stopped before it served");
      const { primary, urls } = serving;
      sayServing(urls, config, log);
      hangUps.each(() => void primary.restartWorkers());
      const signal = await stop;
      log.info({ signal }, "draining");
      await primary.drain();
    });
  await withLog(log, run);
}

/** Text at a terminal, otherwise a line of the log. `pid` is the process that takes signals. */
function sayServing({ url, adminUrl }: ServiceUrls, { basePath }: ServiceConfig, log: Log): void {
  const { pid } = process;
  const serving = `serving on ${url}${basePath}`;
  const admin = adminUrl === undefined ? [] : [`health and metrics on ${adminUrl}`];
  if (process.stderr.isTTY !== true) log.info({ pid }, [serving, ...admin].join("; "));
  else for (const line of [`${serving} (process ${pid})`, ...admin]) process.stderr.write(`marketd: ${line}\n`);
}

/** A primary, and where it serves. */
interface Serving {
  readonly primary: Primary;
  readonly urls: ServiceUrls;
}

/**
 * Starts a primary and its workers. Undefined if they cannot start and `stop` has resolved: a signal to all processes
 * ends a worker that does not hear signals yet.
 * @throws OperatorError if they cannot start
 */
export async function startServing(
  config: Config<"serve">,
  options: Pick<PrimaryOptions, "argv" | "databaseUrl" | "log">,
  stop: Promise<unknown>,
): Promise<Serving | undefined> {
  let isStopped = false;
  void stop.then(() => {
    isStopped = true;
  });
  return start(config, options).catch((error: unknown) => {
    if (isStopped) return undefined;
    throw error;
  });
}

async function start(
  config: Config<"serve">,
  options: Pick<PrimaryOptions, "argv" | "databaseUrl" | "log">,
): Promise<Serving> {
  const { listen, adminListen, drainMs } = config;
  const workers = config.workers === 0 ? availableParallelism() : config.workers;
  const tls = config.tls !== undefined;
  const { connectionsMax } = defaultTransportLimits;
  const program = workerProgram();
  let admission: typeof import("../transport/connections/connection-admission.js") | undefined;
  const refuse = (socket: Socket, isClosing: boolean): void => {
    // With TLS, a reason would need a handshake.
    if (tls || admission === undefined) return void socket.destroy();
    const { connectionRefusals, drainRefusal, refuseConnection } = admission;
    refuseConnection(socket, isClosing ? drainRefusal : connectionRefusals.TOO_MANY_CONNECTIONS);
  };
  if (config.namesTuning === true) {
    options.log.warn("--tuning and MARKETD_TUNING have no effect; remove them, the next release refuses the flag");
  }
  const ofTls = config.tls === undefined ? [] : [config.tls.certificatePath, config.tls.keyPath];
  const files = [...ofTls, ...(config.database.kind === "url_file" ? [config.database.path] : [])];
  const settings = {
    program,
    files,
    flags: workerFlags,
    listen,
    adminListen,
    tls,
    workers,
    drainMs,
    connectionsMax,
    refuse,
  };
  const primary = new Primary({ ...options, ...settings });
  const starting = primary.start();
  starting.catch(() => {});
  // Loaded while the workers start, which takes longer.
  admission = await import("../transport/connections/connection-admission.js");
  return { primary, urls: await starting };
}

/**
 * The worker program of the newest build: each build has its own folder, and the link `dist` beside it points to the
 * newest. A build that was copied under another name has only its own worker.
 */
function workerProgram(): string {
  const newest = fileURLToPath(new URL("../../../dist/src/commands/worker.js", import.meta.url));
  return existsSync(newest) ? newest : fileURLToPath(new URL("./worker.js", import.meta.url));
}
