import { OperatorError } from "../domain/operator-error.js";
import { databaseProblem } from "../store/connection/database-error.js";

/** Failures that the operator can correct, as one line; anything else unchanged. */
export function forOperator(error: unknown): unknown {
  const problem = databaseProblem(error);
  return problem === undefined ? error : new OperatorError(problem, 1, error);
}
