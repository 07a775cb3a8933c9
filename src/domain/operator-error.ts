/** The exit code of a command whose arguments are wrong. */
export const exitUsage = 2;

/** The exit code of a command whose server cannot be reached, is not ready, or went away for too long. */
export const exitUnavailable = 3;

/** The exit code of `export` when it did not get what the server says it sent. */
export const exitNotVerified = 4;

/** The exit code of `verify` when it could not check: 1 says that it found something. */
export const exitUnchecked = 4;

/** The exit code of a command that was interrupted by SIGINT. */
export const exitInterrupted = 130;

/**
 * A failure that the operator can correct: a port in use, an unreachable database, a damaged recording. The message is
 * one line for the terminal; no stack is printed.
 */
export class OperatorError extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode = 1, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "OperatorError";
    this.exitCode = exitCode;
  }
}
