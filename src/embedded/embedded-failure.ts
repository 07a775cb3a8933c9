import { OperatorError } from "../domain/operator-error.js";

/** Reasons why there is no private database; callers map them to exit codes. */
export type EmbeddedFailureReason =
  /** No server program is installed, and it cannot be installed. */
  | "server_missing"
  /** The installed server is older than marketd supports. */
  | "server_too_old"
  /** Installing failed. */
  | "install_failed"
  /** The data or socket directory cannot be used by this user. */
  | "no_access"
  /** The server did not start. */
  | "start_failed";

/**
 * The private database is unavailable. The message is one line for the terminal, and says what to do if that is known.
 */
export class EmbeddedFailure extends OperatorError {
  readonly reason: EmbeddedFailureReason;

  constructor(reason: EmbeddedFailureReason, message: string, cause?: unknown) {
    super(message, 1, cause);
    this.name = "EmbeddedFailure";
    this.reason = reason;
  }
}
