import { OperatorError } from "../domain/operator-error.js";
import { databaseProblem } from "../store/write-failure.js";

/** What the operator can mend, as one line; anything else as it is. */
export function forOperator(error: unknown): unknown {
  const problem = databaseProblem(error);
  return problem === undefined ? error : new OperatorError(problem, 1, error);
}
