/** The longest pause between polls, in milliseconds: how late the first block after a rest may be found. */
export const restPollMs = 250;

/** Gaps between blocks that are remembered: few enough to follow a change, and enough to know the shortest. */
export const rememberedGaps = 32;

/** The part of the shortest remembered gap in which no block is expected. */
export const quietPart = 0.8;

/**
 * Blocks come regularly if the longest remembered gap is at most so many times the shortest. Otherwise a short gap is as
 * likely as ever: the quiet part would save nothing, and find one block of forty late.
 */
export const regularMax = 4;

/** The part of the interval at which a regular network is polled once its next block may come. */
export const expectingPart = 0.8;

/** No block for so many times the longest remembered gap: the network rests … */
export const restGaps = 2;

/** … but not within so many milliseconds of its last block, which loaders of irregular input exceed rarely. */
export const restMinMs = 2_000;

/**
 * A gap counts as no longer than this, in milliseconds. Otherwise a network that rested for a night would be polled as
 * a live one for two nights after its next block.
 */
export const gapMaxMs = 60_000;

/**
 * When to poll for the next block, by the gaps between the last ones: rarely while none is expected, which is soon after
 * a regular network's block and when a network rests, and otherwise once an interval. Times are those of
 * `performance.now()`.
 */
export class PollRhythm {
  readonly #intervalMs: number;
  readonly #gaps: number[] = [];
  #foundAt: number;

  constructor(intervalMs: number, now: number) {
    this.#intervalMs = intervalMs;
    this.#foundAt = now;
  }

  /** A newer block was found. */
  found(now: number): void {
    this.#gaps.push(Math.min(gapMaxMs, now - this.#foundAt));
    if (this.#gaps.length > rememberedGaps) this.#gaps.shift();
    this.#foundAt = now;
  }

  /** When to poll after a poll at `polledAt`. */
  next(polledAt: number): number {
    const latest = polledAt + Math.max(this.#intervalMs, restPollMs);
    const longest = Math.max(0, ...this.#gaps);
    if (polledAt >= this.#foundAt + Math.max(restMinMs, restGaps * longest)) return latest;
    const shortest = Math.min(...this.#gaps);
    const isRegular = this.#gaps.length === rememberedGaps && longest <= regularMax * shortest;
    if (!isRegular) return polledAt + this.#intervalMs;
    const soonest = polledAt + expectingPart * this.#intervalMs;
    return Math.min(latest, Math.max(soonest, this.#foundAt + quietPart * shortest));
  }
}
