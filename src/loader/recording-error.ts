/** A recording that cannot be loaded, or not any further. What came before the place it names is kept. */
export class RecordingError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "RecordingError";
  }
}
