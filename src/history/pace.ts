/** Seconds of the past in a second: when a block is due, and how long a stream was silent. */
export class Pace {
  #startNs = 0n;
  #startMs = 0;
  #sentMs = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #awake: () => void = () => {};
  #stopped = false;

  /** `speed` undefined: every block is due at once. */
  constructor(
    private readonly speed: number | undefined,
    private readonly heartbeatMs: number,
  ) {}

  /** What happened at this time is due now. */
  start(timeNs: bigint): void {
    this.#startNs = timeNs;
    this.#startMs = performance.now();
  }

  /** Until a block of this time is due; 0 or less: it is. */
  waitMs(timeNs: bigint): number {
    if (this.speed === undefined) return 0;
    const dueMs = this.#startMs + Number(timeNs - this.#startNs) / 1e6 / this.speed;
    return dueMs - performance.now();
  }

  /** Whether a block should have been sent already. */
  isLate(timeNs: bigint): boolean {
    return this.speed !== undefined && this.waitMs(timeNs) <= 0;
  }

  /** A message was sent. */
  sent(): void {
    this.#sentMs = performance.now();
  }

  /** Whether an empty message is due. */
  get isSilent(): boolean {
    return performance.now() >= this.#sentMs + this.heartbeatMs;
  }

  /** Resolves after `ms`, or when an empty message is due, or it is stopped. Never late on account of earlier waits. */
  sleep(ms: number): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    const silentMs = Math.max(0, this.#sentMs + this.heartbeatMs - performance.now());
    return new Promise((resolve) => {
      this.#awake = resolve;
      this.#timer = setTimeout(resolve, Math.min(ms, silentMs));
    });
  }

  /** Ends a wait at once, and all later ones. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#awake();
  }
}
