import { Failure } from "../domain/failure.js";
import { OperatorError } from "../domain/operator-error.js";
import { databaseErrorCode } from "../store/database-error.js";

/** What the operator can mend, as one line; anything else as it is. */
export function forOperator(error: unknown): unknown {
  if (error instanceof Failure && error.code === "unavailable") {
    return new OperatorError(`the database cannot be reached${reasonOf(error.cause)}`, 1, error);
  }
  if (error instanceof Error && /ACCESS_?DENIED/.test(databaseErrorCode(error) ?? "")) {
    return new OperatorError(`the database refuses its user: ${error.message}`, 1, error);
  }
  return error;
}

function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return "";
  // Where a name has several addresses, the error of all of them together has no message of its own.
  const reason = cause.message === "" ? databaseErrorCode(cause) : cause.message;
  return reason === undefined ? "" : `: ${reason}`;
}
