/** Allows so many events at once, and so many a second from then on. */
export class RateLimit {
  readonly #burst: number;
  readonly #perSecond: number;
  #left: number;
  #refilledMs = performance.now();

  constructor(burst: number, perSecond: number) {
    this.#burst = burst;
    this.#perSecond = perSecond;
    this.#left = burst;
  }

  /** Counts `amount` events that have happened; false: they are too many. */
  allows(amount = 1): boolean {
    this.#left -= amount;
    if (this.#left >= 0) return true;
    const nowMs = performance.now();
    this.#left = Math.min(this.#burst, this.#left + ((nowMs - this.#refilledMs) * this.#perSecond) / 1000);
    this.#refilledMs = nowMs;
    return this.#left >= 0;
  }
}
