import { type Logger, pino } from "pino";

/** Structured log lines. Modules receive a log and never create one. */
export type Log = Logger;

/** The values of `--log-level`, quietest first. */
export const logLevels = ["silent", "error", "warn", "info", "debug"] as const;

/** One of {@link logLevels}. */
export type LogLevel = (typeof logLevels)[number];

/** Bytes of lines that wait while standard error cannot be written, as on a full disk; later ones are dropped. */
export const logPendingBytesMax = 64 * 1024;

/** JSON lines on standard error; standard output is for the output of commands. */
export function createLog(level: LogLevel): Log {
  const lines = pino.destination({ fd: 2, sync: true, maxLength: logPendingBytesMax });
  // Nobody can be told. The next line tries again.
  lines.on("error", () => {});
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, lines);
}
