import type { Log } from "../telemetry/log.js";

/** Interval at which a terminal's progress line is renewed. */
export const progressIntervalMs = 200;

/** Interval of plain progress lines if standard error is not a terminal. */
export const plainProgressIntervalMs = 10_000;

/**
 * Progress on standard error: one line that is renewed at a terminal, or occasional lines: of the log, if there is one.
 * `text` is called only when a line is due.
 */
export class ProgressLine {
  readonly #terminal = process.stderr.isTTY === true;
  readonly #intervalMs = this.#terminal ? progressIntervalMs : plainProgressIntervalMs;
  #dueAt = performance.now() + this.#intervalMs;
  #shown = false;

  constructor(private readonly log?: Log) {}

  update(text: () => string): void {
    const now = performance.now();
    if (now < this.#dueAt) return;
    this.#dueAt = now + this.#intervalMs;
    this.#shown = true;
    if (this.#terminal) process.stderr.write(`\r\u001b[2K${text()}`);
    else if (this.log === undefined) process.stderr.write(`${text()}\n`);
    else this.log.info(text());
  }

  /** Clears the renewed line; plain lines stay. */
  clear(): void {
    if (this.#terminal && this.#shown) process.stderr.write("\r\u001b[2K");
    this.#shown = false;
  }
}
