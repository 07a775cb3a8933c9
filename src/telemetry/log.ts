import { type Logger, pino } from "pino";

/** Structured log lines. Modules receive a log and never create one. */
export type Log = Logger;

/** The values of `--log-level`, quietest first. */
export const logLevels = ["silent", "error", "warn", "info", "debug"] as const;

/** One of {@link logLevels}. */
export type LogLevel = (typeof logLevels)[number];

/**
 * Bytes of lines that wait while standard error takes none, as with a full disk or a pipe that nobody reads; later ones
 * are dropped.
 */
export const logPendingBytesMax = 64 * 1024;

/** The pause before lines that wait are written again, in milliseconds. */
const logRetryMs = 100;

/** Up to so many bytes, a write to a pipe is not mixed with those of other processes. */
const pipeWriteBytesMax = 4_096;

/** JSON lines on standard error; standard output is for the output of commands. It never waits for who reads them. */
export function createLog(level: LogLevel): Log {
  // With that, a full pipe or socket refuses lines. Without, the process would stop until somebody reads.
  void process.stderr;
  const limits = { maxLength: logPendingBytesMax, maxWrite: pipeWriteBytesMax };
  const lines = pino.destination({ fd: 2, sync: true, retryEAGAIN: () => false, ...limits });
  const log = pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, lines);
  let dropped = 0;
  let retry: NodeJS.Timeout | undefined;
  lines.on("drop", () => {
    dropped++;
  });
  lines.on("error", () => {
    // Nobody can be told. Once as many lines wait as may, a further one is dropped and would not try again.
    retry ??= setTimeout(() => {
      retry = undefined;
      lines.write("");
      if (retry !== undefined || dropped === 0) return;
      log.warn({ dropped }, "lines of this log were dropped: standard error took none");
      dropped = 0;
    }, logRetryMs).unref();
  });
  return log;
}
