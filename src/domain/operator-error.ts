/** The exit code of a command whose arguments are wrong. */
export const exitUsage = 2;

/** The exit code of `verify` when it could not check: 1 says that it found something. */
export const exitUnchecked = 4;

/** The exit code of a command that was interrupted by SIGINT. */
export const exitInterrupted = 130;

/**
 * Something the operator can mend (a port in use, a database that does not answer, a broken recording): the message is
 * one line for the terminal, and no stack belongs beside it.
 */
export class OperatorError extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode = 1, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "OperatorError";
    this.exitCode = exitCode;
  }
}
