import type { LoadConfig } from "../config.js";
import { exitInterrupted, OperatorError } from "../domain/operator-error.js";
import { isKafkaUrl } from "../loader/kafka-address.js";
import { kafkaSource } from "../loader/kafka-source.js";
import { load as loadRecordings } from "../loader/load.js";
import { type LoadProgress, type LoadSummary, renderSummary } from "../loader/load-summary.js";
import { startRetries, withRetries } from "../loader/retry.js";
import { fileSource, type Source, streamSource } from "../loader/source.js";
import { untilStopped } from "../runtime/stop-signal.js";
import { migrate } from "../store/migrate.js";
import { SecondWriterError } from "../store/progress-table.js";
import { createLog, type Log } from "../telemetry/log.js";
import { withDatabase } from "./database-choice.js";
import { withLog } from "./log-lines.js";
import { ProgressLine } from "./progress-line.js";

/** Fills the database, shows progress, and prints a summary on standard output. */
export async function load(config: LoadConfig): Promise<void> {
  const log = createLog(config.logLevel);
  await withLog(log, () => withDatabase(config.database, log, (url) => loadInto(url, config, log)));
}

async function loadInto(url: string, config: LoadConfig, log: Log): Promise<void> {
  // Up to here a signal ends the process at once; the next command resumes a migration.
  await withRetries(() => migrate(url, log), startRetries(log));
  const stopping = new AbortController();
  let interrupted = false;
  void untilStopped().then((signal) => {
    interrupted = signal === "SIGINT";
    stopping.abort();
  });
  const progress = new ProgressLine(log);
  try {
    const summary = await loadInTurn(url, config, log, stopping.signal, progress);
    progress.clear();
    for (const line of renderSummary(summary)) process.stdout.write(`${line}\n`);
  } finally {
    progress.clear();
    // An open pipe would keep the process alive.
    if (config.sources.includes("-")) process.stdin.destroy();
  }
  if (interrupted) throw new OperatorError("interrupted; what was committed stays", exitInterrupted);
}

/** Loads; with `--standby` again and again, whenever another loader took its turn. */
async function loadInTurn(
  database: string,
  config: LoadConfig,
  log: Log,
  signal: AbortSignal,
  progress: ProgressLine,
): Promise<LoadSummary> {
  const { pace, standby } = config;
  for (;;) {
    const turn = new AbortController();
    const sources = openSources(config, AbortSignal.any([signal, turn.signal]), log);
    const onProgress = (now: LoadProgress) => progress.update(() => progressText(now));
    try {
      return await loadRecordings({ database, sources, pace, standby, log, signal, onProgress });
    } catch (error) {
      if (!standby || !(error instanceof SecondWriterError)) throw error;
      log.warn("another loader took over; standing by");
    } finally {
      turn.abort();
    }
  }
}

async function* openSources(config: LoadConfig, signal: AbortSignal, log: Log): AsyncGenerator<Source> {
  const last = config.sources.length - 1;
  for (const [index, path] of config.sources.entries()) {
    const follow = config.follow && index === last;
    if (path === "-") yield streamSource(process.stdin, "standard input");
    else if (isKafkaUrl(path)) yield await kafkaSource(path, { follow, log, signal });
    else yield await fileSource(path, { follow, signal });
  }
}

function progressText(progress: LoadProgress): string {
  const { blocks, events, eventsPerSecond, bytes, totalBytes, secondsLeft } = progress;
  const parts = [`${blocks} blocks`, `${events} events`, `${Math.round(eventsPerSecond)} events/s`];
  if (totalBytes !== undefined) parts.push(`${Math.floor((100 * bytes) / Math.max(1, totalBytes))}%`);
  if (secondsLeft !== undefined) parts.push(`${Math.ceil(secondsLeft)} s left`);
  return `loading: ${parts.join(", ")}`;
}
