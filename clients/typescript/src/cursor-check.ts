import { Code, ConnectError } from "@connectrpc/connect";
import { quoted } from "../../../src/domain/printable.js";

/**
 * Finds out that a list leads in a circle. It keeps one cursor (Brent's algorithm): the first, second, fourth, eighth …
 * of the list. A circle comes back to one of them.
 */
export class CursorCheck {
  #kept: string | undefined;
  #steps = 0;
  #stepsMax = 1;

  /** @param start where the list begins */
  constructor(start: string | undefined) {
    this.#kept = start;
  }

  /** Takes the cursor of the next page. @throws ConnectError DATA_LOSS if it leads back */
  advance(cursor: string): void {
    if (cursor === "" || cursor === this.#kept) {
      throw new ConnectError(`the list does not advance: it leads back to the cursor ${quoted(cursor)}`, Code.DataLoss);
    }
    if (++this.#steps < this.#stepsMax) return;
    this.#kept = cursor;
    this.#steps = 0;
    this.#stepsMax *= 2;
  }
}
