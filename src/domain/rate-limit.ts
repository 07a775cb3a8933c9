/** The longest time for which a limit stays exceeded after the last event, in seconds. */
export const exceededSecondsMax = 5;

/** A token bucket: allows `burst` events at once, then `perSecond` a second. */
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

  /**
   * Whether more events were counted than are allowed. False again within {@link exceededSecondsMax} of the last one.
   */
  get exceeded(): boolean {
    return this.usedShare > 1;
  }

  /** How much of the burst is used now: 0 is nothing, and more than 1 exceeds the limit. */
  get usedShare(): number {
    if (this.#left < this.#burst) this.#refill();
    return (this.#burst - this.#left) / this.#burst;
  }

  /** Counts `amount` events; returns false if they exceed the limit. */
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
