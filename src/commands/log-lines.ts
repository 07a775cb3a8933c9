import { exitUsage, OperatorError } from "../domain/operator-error.js";
import type { Log } from "../telemetry/log.js";

/** The command has failed with an exit code, and the log says why. */
export class LoggedFailure extends Error {
  readonly exitCode: number;

  constructor(exitCode: number, cause: unknown) {
    super("the command has failed", { cause });
    this.exitCode = exitCode;
  }
}

/** Writes Node's warnings, and errors that nobody caught, as lines of the log; Node would print text. */
export function logNodeMessages(log: Log): void {
  // Node's own listener prints them.
  process.removeAllListeners("warning");
  process.on("warning", (warning) => log.warn({ err: warning }, "Node.js warns"));
  process.on("uncaughtException", (error) => {
    log.fatal({ err: error }, "the process ends, because of an error that nobody caught");
    process.exit(1);
  });
}

/**
 * Runs a command that logs. Unless people read standard error, at a terminal, the reason why it fails is a line of the
 * log too. Wrong use is still told as text, because the command has not started then.
 * @throws LoggedFailure in place of what is logged
 */
export async function withLog(log: Log, command: () => Promise<void>): Promise<void> {
  logNodeMessages(log);
  try {
    await command();
  } catch (error) {
    const isExpected = error instanceof OperatorError;
    if (isExpected && error.exitCode === exitUsage) throw error;
    if (process.stderr.isTTY === true || !log.isLevelEnabled("fatal")) throw error;
    log.fatal(isExpected ? {} : { err: error }, error instanceof Error ? error.message : String(error));
    throw new LoggedFailure(isExpected ? error.exitCode : 1, error);
  }
}
