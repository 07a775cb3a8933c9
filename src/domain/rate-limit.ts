/** How long after the last event a limit can be exceeded at most, in seconds: what goes far beyond it is soon forgotten. */
export const exceededSecondsMax = 5;

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

  /** Whether more events were counted than are allowed. Ends {@link exceededSecondsMax} after the last of them, or sooner. */
  get exceeded(): boolean {
    if (this.#left < 0) this.#refill();
    return this.#left < 0;
  }

  /** Counts `amount` events that have happened; false: they are too many. */
  allows(amount = 1): boolean {
    this.#left -= amount;
    if (this.#left >= 0) return true;
    this.#refill();
    this.#left = Math.max(this.#left, -this.#perSecond * exceededSecondsMax);
    return this.#left >= 0;
  }

  #refill(): void {
    const nowMs = performance.now();
    this.#left = Math.min(this.#burst, this.#left + ((nowMs - this.#refilledMs) * this.#perSecond) / 1000);
    this.#refilledMs = nowMs;
  }
}
