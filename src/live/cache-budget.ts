/** What a budget makes drop its responses. */
export interface BudgetUser {
  /** Drops and releases all that counts. */
  forgetDepthResponses(): void;
}

/**
 * Bounds the memory of depth responses with a `maxDepth`, over all markets of a process. When it is used up, all are
 * dropped.
 */
export class CacheBudget {
  readonly #bytesOf = new Map<BudgetUser, number>();
  #bytes = 0;

  constructor(private readonly bytesMax: number) {}

  /** Counts bytes that `user` is about to keep. False: that is too much for one response, keep nothing. */
  take(user: BudgetUser, bytes: number): boolean {
    if (bytes > this.bytesMax / responsesMin) return false;
    if (this.#bytes + bytes > this.bytesMax) for (const each of this.#bytesOf.keys()) each.forgetDepthResponses();
    this.#bytesOf.set(user, (this.#bytesOf.get(user) ?? 0) + bytes);
    this.#bytes += bytes;
    return true;
  }

  /** A user keeps nothing any more. */
  release(user: BudgetUser): void {
    this.#bytes -= this.#bytesOf.get(user) ?? 0;
    this.#bytesOf.delete(user);
  }
}

/** A response that would take more than this fraction of the budget is not kept: it would displace all others. */
const responsesMin = 8;
