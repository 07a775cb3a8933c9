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
   * Calls `go` when it is its turn, at once if nothing else has gone on lately. What it starts in microtasks counts as part
   * of the piece. `turnsMin`: turns that follow it however short it is, because of work before it.
   */
  push(go: () => void, turnsMin = 0): void {
    if (this.#active) {
      this.#pieces.push({ go, turnsMin });
      return;
    }
    this.#active = true;
    const startedMs = performance.now();
    setImmediate(() => this.#ended(startedMs, turnsMin));
    go();
  }

  /** Both run in the same turn; the microtasks of the piece come between. */
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
    const next = this.#pieces.shift();
    if (next === undefined) this.#active = false;
    else this.#goOn(next);
  }
}
