import { performance } from "node:perf_hooks";
import { OwnerQueue } from "./owner-queue.js";

/** The maximum number of turns after a piece of work, reached after ten milliseconds. */
export const turnsMax = 10;

interface Piece {
  readonly go: () => void;
  readonly turnsMin: number;
}

/**
 * Runs pieces of work one at a time, with turns of the event loop in between: one for each millisecond that a piece
 * took. Node accepts one connection per turn and serves what has arrived, so long pieces in a row would delay
 * everything else. Owners of pieces take turns.
 */
export class WorkPacer {
  readonly #waiting = new OwnerQueue<Piece>();
  #active = false;
  #turnsLeft = 0;

  /**
   * Calls `go` in its turn; at once if no other piece ran lately. Microtasks that it starts count as part of the piece.
   * `turnsMin`: turns that follow regardless of its duration, on account of earlier work.
   * @returns what drops the piece if it still waits
   */
  push(go: () => void, turnsMin = 0, owner = ""): () => void {
    if (this.#active) {
      const piece = { go, turnsMin };
      this.#waiting.push(owner, piece);
      return () => this.#waiting.drop(owner, piece);
    }
    this.#active = true;
    const startedMs = performance.now();
    setImmediate(() => this.#ended(startedMs, turnsMin));
    go();
    return () => {};
  }

  /** Pieces of an owner that wait. */
  waitingOf(owner: string): number {
    return this.#waiting.lengthOf(owner);
  }

  /** Owners of pieces that wait. */
  get owners(): number {
    return this.#waiting.owners;
  }

  /** Both run in the same turn, with the microtasks of the piece in between. */
  #goOn({ go, turnsMin }: Piece): void {
    let startedMs = 0;
    setImmediate(() => {
      startedMs = performance.now();
      go();
    });
    setImmediate(() => this.#ended(startedMs, turnsMin));
  }

  #ended(startedMs: number, turnsMin: number): void {
    const tookMs = Math.floor(performance.now() - startedMs);
    this.#turnsLeft = Math.min(turnsMax, Math.max(turnsMin, tookMs));
    this.#rest();
  }

  #rest(): void {
    if (this.#turnsLeft > 0) {
      this.#turnsLeft--;
      setImmediate(() => this.#rest());
      return;
    }
    const next = this.#waiting.shift();
    if (next === undefined) this.#active = false;
    else this.#goOn(next);
  }
}

/** How long one slice of {@link runInTurns} takes, in milliseconds. */
const sliceMs = 5;

/** Runs work to its end, with a turn of the event loop after each slice: at the first `yield` that comes late enough. */
export async function runInTurns<T>(work: Generator<void, T>): Promise<T> {
  for (;;) {
    const until = performance.now() + sliceMs;
    do {
      const { done, value } = work.next();
      if (done) return value;
    } while (performance.now() < until);
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
}

/** Runs work to its end at once. */
export function runAtOnce<T>(work: Generator<void, T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}
