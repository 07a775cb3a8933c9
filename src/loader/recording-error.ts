import { OperatorError } from "../domain/operator-error.js";

/** A recording that cannot be loaded, or not any further. What came before the place it names is kept. */
export class RecordingError extends OperatorError {
  constructor(message: string, cause?: unknown) {
    super(message, 1, cause);
    this.name = "RecordingError";
  }
}
