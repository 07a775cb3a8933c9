/** What a budget makes drop its responses. */
export interface BudgetUser {
  forgetDepthResponses(): void;
}

/**
 * Bounds the memory of depth responses with a `maxDepth`, over all markets of a process. When it is used up, all are
 * dropped.
 */
export class CacheBudget {
  readonly #users = new Set<BudgetUser>();
  #bytes = 0;

  constructor(private readonly bytesMax: number) {}

  /** Counts bytes that `user` is about to keep. False: that is too much for one response, keep nothing. */
  take(user: BudgetUser, bytes: number): boolean {
    if (bytes > this.bytesMax / responsesMin) return false;
    if (this.#bytes + bytes > this.bytesMax) {
      for (const each of this.#users) each.forgetDepthResponses();
      this.#users.clear();
      this.#bytes = 0;
    }
    this.#users.add(user);
    this.#bytes += bytes;
    return true;
  }

  /** Bytes that a user no longer keeps. */
  release(bytes: number): void {
    this.#bytes -= bytes;
  }
}

/** A response that would take more than this fraction of the budget is not kept: it would displace all others. */
const responsesMin = 8;
