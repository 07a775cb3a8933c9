import { performance } from "node:perf_hooks";
import { OwnerQueue } from "../domain/owner-queue.js";

/** How long a reader of the past computes before others have their turn, in milliseconds. */
export const pieceMs = 1;

/** How long the event loop is watched before its use is judged again, in milliseconds. */
const watchMs = 50;

/** The longest rest after a piece of work, as a multiple of its duration. */
export const restFactorMax = 20;

/** The longest rest, in milliseconds, however long the piece took. */
export const restMsMax = 40;

/**
 * The rest after a piece of work, as a multiple of its duration. It grows steeply with the share of the event loop that
 * others use: 0.1 at a fifth, 8 at a half. Requests come in bursts, and wait where the past takes all that is left.
 */
export function restFactor(othersShare: number): number {
  const idleShare = 1 - othersShare;
  return idleShare <= 0 ? restFactorMax : Math.min(restFactorMax, ((2 * othersShare) / idleShare) ** 3);
}

/**
 * The turns of calls that read the past: one piece of work at a time, with a rest in between that depends on how much
 * others use the event loop. Clients take turns, however many calls each has.
 */
export class Turns {
  readonly #waiting = new OwnerQueue<() => void>();
  #active = false;
  #watched = performance.eventLoopUtilization();
  /** Milliseconds of pieces while the loop was watched, each with the next turn of the loop, which sends what it made. */
  #ownMs = 0;
  #restFactor = 0;

  /**
   * Resolves when it is the turn of this call of a client; at once if none was taken lately. What it does in microtasks
   * is its piece.
   */
  next(client: string): Promise<void> {
    return new Promise((resolve) => {
      if (this.#active) this.#waiting.push(client, resolve);
      else this.#start(resolve);
    });
  }

  #start(go: () => void): void {
    this.#active = true;
    const startedMs = performance.now();
    setImmediate(() => this.#ended(startedMs));
    go();
  }

  #ended(startedMs: number): void {
    const tookMs = performance.now() - startedMs;
    this.#ownMs += tookMs;
    this.#watch();
    const restMs = Math.min(restMsMax, tookMs * this.#restFactor);
    // Timers count whole milliseconds. Others have one turn in any case.
    if (restMs < 1) setImmediate(() => this.#goOn());
    else setTimeout(() => this.#goOn(), restMs);
  }

  #goOn(): void {
    const go = this.#waiting.shift();
    if (go === undefined) this.#active = false;
    else this.#start(go);
  }

  #watch(): void {
    const now = performance.eventLoopUtilization();
    const { active, idle } = performance.eventLoopUtilization(now, this.#watched);
    if (active + idle < watchMs) return;
    this.#restFactor = restFactor(Math.max(0, active - this.#ownMs) / (active + idle));
    this.#watched = now;
    this.#ownMs = 0;
  }
}
