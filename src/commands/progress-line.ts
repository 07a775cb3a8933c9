/** How often a terminal's progress line is renewed. */
export const progressIntervalMs = 200;

/** How often a plain progress line is written where nobody watches a terminal. */
export const plainProgressIntervalMs = 10_000;

/**
 * Progress on standard error: one line that renews itself at a terminal, a plain line now and then elsewhere. `text` is
 * called only when a line is due.
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

  /** Takes the renewed line away; plain lines stay. */
  clear(): void {
    if (this.#terminal && this.#shown) process.stderr.write("\r\u001b[2K");
    this.#shown = false;
  }
}
