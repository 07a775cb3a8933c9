import { performance } from "node:perf_hooks";

/** How long the event loop is watched before its use is judged again, in milliseconds. */
const watchMs = 50;

/** The longest rest after a piece of work, in times what the piece took, and in milliseconds: the past always goes on. */
export const restsMax = 20;
export const restMsMax = 40;

/**
 * How long to rest after a piece of work, in times what it took. If others use half of the event loop, it is eight; if they
 * use a fifth, next to nothing. Others come in no steady stream: on a loop that is full they wait for the past.
 */
export function restsAfter(othersShare: number): number {
  const idleShare = 1 - othersShare;
  return idleShare <= 0 ? restsMax : Math.min(restsMax, ((2 * othersShare) / idleShare) ** 3);
}

/**
 * The turns of calls that read the past: one piece of work at a time, with a rest in between that depends on how much
 * others use the event loop.
 */
export class Turns {
  readonly #waiting: (() => void)[] = [];
  #active = false;
  #watched = performance.eventLoopUtilization();
  /** What pieces took while the loop was watched, each with the turn of the loop that follows: it sends what they made. */
  #ownMs = 0;
  #rests = 0;

  /** Resolves when it is the caller's turn; at once if none was taken lately. What it does in microtasks is its piece. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#active) this.#waiting.push(resolve);
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
    const restMs = Math.min(restMsMax, tookMs * this.#rests);
    // Timers count whole milliseconds. One turn is others' in any case.
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
    this.#rests = restsAfter(Math.max(0, active - this.#ownMs) / (active + idle));
    this.#watched = now;
    this.#ownMs = 0;
  }
}
