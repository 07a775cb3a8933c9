import { performance } from "node:perf_hooks";

/** Turns of the event loop after a piece, at most: work of ten milliseconds gets as many, and so does longer work. */
export const turnsMax = 10;

interface Piece {
  readonly go: () => void;
  readonly turnsMin: number;
}

/**
 * Lets pieces of work go on one by one, with turns of the event loop between them: one turn for each millisecond that a
 * piece took. Node accepts one connection a turn, and each turn serves what has arrived, so long pieces back to back
 * would make everyone else wait for all of them.
 */
export class WorkPacer {
  readonly #pieces: Piece[] = [];
  #active = false;
  #turnsLeft = 0;

  /**
   * Calls `go` when it is its turn, never at once. What it starts in microtasks counts as part of the piece. `turnsMin`:
   * turns that follow it however short it is, because of work before it.
   */
  push(go: () => void, turnsMin = 0): void {
    this.#pieces.push({ go, turnsMin });
    if (this.#active) return;
    this.#active = true;
    this.#schedule();
  }

  /** Both run in the same turn; the microtasks of the piece come between. */
  #schedule(): void {
    let startedMs = 0;
    const piece = this.#pieces.shift();
    setImmediate(() => {
      startedMs = performance.now();
      piece?.go();
    });
    setImmediate(() => {
      const tookMs = performance.now() - startedMs;
      this.#turnsLeft = Math.min(turnsMax, Math.max(piece?.turnsMin ?? 0, Math.floor(tookMs)));
      this.#rest();
    });
  }

  #rest(): void {
    if (this.#turnsLeft > 0) {
      this.#turnsLeft--;
      setImmediate(() => this.#rest());
    } else if (this.#pieces.length > 0) {
      this.#schedule();
    } else {
      this.#active = false;
    }
  }
}
