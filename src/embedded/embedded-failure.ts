import { OperatorError } from "../domain/operator-error.js";

/** Why there is no private database; callers turn it into an exit code. */
export type EmbeddedFailureReason =
  /** No server program on the machine, and no way to install one. */
  | "server_missing"
  /** A server program is there, and it is older than the SQL we write. */
  | "server_too_old"
  /** Installing failed. */
  | "install_failed"
  /** The data or socket directory cannot be used by this user. */
  | "no_access"
  /** The server did not start. */
  | "start_failed";

/** The private database cannot be had. The message is one line for a person, and says what to do where we know it. */
export class EmbeddedFailure extends OperatorError {
  readonly reason: EmbeddedFailureReason;

  constructor(reason: EmbeddedFailureReason, message: string, cause?: unknown) {
    super(message, 1, cause);
    this.name = "EmbeddedFailure";
    this.reason = reason;
  }
}
