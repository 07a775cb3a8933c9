import { type Logger, pino } from "pino";

/** Structured log lines. Modules receive a log and never create one. */
export type Log = Logger;

/** The values of `--log-level`, quietest first. */
export const logLevels = ["silent", "error", "warn", "info", "debug"] as const;

/** One of {@link logLevels}. */
export type LogLevel = (typeof logLevels)[number];

/** JSON lines on standard error; standard output is for the output of commands. */
export function createLog(level: LogLevel): Log {
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, pino.destination({ fd: 2, sync: true }));
}
