import { exitInterrupted, exitUsage, OperatorError } from "../domain/operator-error.js";
import { thrownText } from "../domain/thrown-text.js";
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
 * Runs a command that logs. Unless standard error is a terminal, the reason why the command ends is a line of the log:
 * `info` if the operator stopped it, otherwise `fatal`. Wrong use is told as text: then the command has not started.
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
    if (isExpected && isStop(error)) log.info(error.message);
    else log.fatal(isExpected ? {} : { err: error }, thrownText(error));
    throw new LoggedFailure(isExpected ? error.exitCode : 1, error);
  }
}

/** Whether the operator stopped the command: it has not failed. */
function isStop({ exitCode }: OperatorError): boolean {
  return exitCode === 0 || exitCode === exitInterrupted;
}
