/** Interval at which a terminal's progress line is renewed. */
export const progressIntervalMs = 200;

/** Interval of plain progress lines if standard error is not a terminal. */
export const plainProgressIntervalMs = 10_000;

/**
 * Progress on standard error: one line that is renewed at a terminal, or occasional plain lines. `text` is called only
 * when a line is due.
 */
export class ProgressLine {
  readonly #terminal = process.stderr.isTTY === true;
  #dueAt = performance.now() + (process.stderr.isTTY === true ? progressIntervalMs : plainProgressIntervalMs);
  #shown = false;

  update(text: () => string): void {
    const now = performance.now();
    if (now < this.#dueAt) return;
    this.#dueAt = now + (this.#terminal ? progressIntervalMs : plainProgressIntervalMs);
    this.#shown = true;
    process.stderr.write(this.#terminal ? `\r\u001b[2K${text()}` : `${text()}\n`);
  }

  /** Clears the renewed line; plain lines stay. */
  clear(): void {
    if (this.#terminal && this.#shown) process.stderr.write("\r\u001b[2K");
    this.#shown = false;
  }
}
