import type { Config } from "../config.js";
import { type ListenAddress, urlOf } from "../domain/listen-address.js";
import { exitInterrupted, OperatorError } from "../domain/operator-error.js";
import { isKafkaUrl } from "../loader/kafka-address.js";
import { kafkaSource } from "../loader/kafka-source.js";
import { load as loadRecordings } from "../loader/load.js";
import { LoadStatus } from "../loader/load-status.js";
import { type LoadProgress, type LoadSummary, renderSummary } from "../loader/load-summary.js";
import { startRetries, withRetries } from "../loader/retry.js";
import { fileSource, type Source, streamSource } from "../loader/source.js";
import { AdminListener } from "../runtime/admin-listener.js";
import { listenError } from "../runtime/listen-error.js";
import { stopOnSignal } from "../runtime/stop-signal.js";
import { migrate } from "../store/migrate.js";
import { SecondWriterError } from "../store/progress-table.js";
import { createLog, type Log } from "../telemetry/log.js";
import { addProcessMetrics, createMetrics } from "../telemetry/metrics.js";
import { withDatabase } from "./database-choice.js";
import { withLog } from "./log-lines.js";
import { ProgressLine } from "./progress-line.js";

/** Fills the database, shows progress, and prints a summary on standard output. */
export async function load(config: Config<"load">): Promise<void> {
  const log = createLog(config.logLevel);
  const status = new LoadStatus();
  await withLog(log, async () => {
    // Before the database is there, because a health check must not wait for it.
    const admin = await listenForAdmin(config.adminListen, status, log);
    try {
      await withDatabase(config.database, log, (url) => loadInto(url, config, log, status));
    } finally {
      admin?.close();
    }
  });
}

/** @throws OperatorError if the address is unavailable */
async function listenForAdmin(
  at: ListenAddress | undefined,
  status: LoadStatus,
  log: Log,
): Promise<AdminListener | undefined> {
  if (at === undefined) return undefined;
  const metrics = createMetrics();
  addProcessMetrics(metrics);
  status.register(metrics);
  const admin = new AdminListener({ readiness: () => status.state, metrics });
  const port = await admin.listen(at.host, at.port).catch((error: unknown) => {
    throw listenError(error, `${at.host}:${at.port}`, "--admin-listen");
  });
  log.info(`health and metrics on ${urlOf("http", { ...at, port })}`);
  return admin;
}

async function loadInto(url: string, config: Config<"load">, log: Log, status: LoadStatus): Promise<void> {
  // Up to here a signal ends the process at once; the next command resumes a migration.
  await withRetries(() => migrate(url, log), startRetries(log));
  const { stop, isInterrupted } = stopOnSignal();
  const progress = new ProgressLine(log);
  try {
    const summary = await loadInTurn(url, config, { log, status, signal: stop.signal }, progress);
    progress.clear();
    for (const line of renderSummary(summary)) process.stdout.write(`${line}\n`);
  } catch (error) {
    // Stopped while it stood by: after SIGINT the command ends as below.
    const isStop = error instanceof OperatorError && error.exitCode === 0;
    if (!(isStop && isInterrupted())) throw error;
  } finally {
    progress.clear();
    // An open pipe would keep the process alive.
    if (config.sources.includes("-")) process.stdin.destroy();
  }
  if (isInterrupted()) throw new OperatorError("interrupted; what was committed stays", exitInterrupted);
}

/** What all loads of the command share. */
interface Shared {
  readonly log: Log;
  readonly status: LoadStatus;
  readonly signal: AbortSignal;
}

/** Loads; with `--standby` again and again, whenever another loader took its turn. */
async function loadInTurn(
  database: string,
  config: Config<"load">,
  shared: Shared,
  progress: ProgressLine,
): Promise<LoadSummary> {
  const { pace, standby, keepBooks, keepTrades } = config;
  const { log, signal } = shared;
  for (;;) {
    const turn = new AbortController();
    const sources = openSources(config, { ...shared, signal: AbortSignal.any([signal, turn.signal]) }, progress);
    const onProgress = (now: () => LoadProgress) => progress.update(() => progressText(now()));
    try {
      const keep = { keepBooks, keepTrades };
      return await loadRecordings({ database, sources, pace, standby, ...keep, ...shared, onProgress });
    } catch (error) {
      if (!standby || !(error instanceof SecondWriterError)) throw error;
      log.warn("another loader took over; standing by");
    } finally {
      turn.abort();
    }
  }
}

async function* openSources(
  config: Config<"load">,
  { log, status, signal }: Shared,
  progress: ProgressLine,
): AsyncGenerator<Source> {
  const last = config.sources.length - 1;
  for (const [index, path] of config.sources.entries()) {
    const follow = config.follow && index === last;
    if (path === "-") yield streamSource(process.stdin, "standard input");
    else if (isKafkaUrl(path)) yield await kafkaSource(path, { follow, log, signal, watch: status.watch("source") });
    else {
      const onCheck = (share: number) => progress.update(() => `checking ${path}: ${Math.floor(100 * share)}%`);
      yield await fileSource(path, { follow, signal, onCheck });
    }
  }
}

function progressText(progress: LoadProgress): string {
  const { blocks, events, eventsPerSecond, bytes, totalBytes, secondsLeft } = progress;
  const parts = [`${blocks} blocks`, `${events} events`, `${Math.round(eventsPerSecond)} events/s`];
  if (totalBytes !== undefined) parts.push(`${Math.floor((100 * bytes) / Math.max(1, totalBytes))}%`);
  if (secondsLeft !== undefined) parts.push(`${Math.ceil(secondsLeft)} s left`);
  return `loading: ${parts.join(", ")}`;
}
