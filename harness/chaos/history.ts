/** What something was, block by block: values with the height from which each holds. */
export class History<T> {
  readonly #heights: number[] = [];
  readonly #values: T[] = [];

  /** From the end of block `height` on, it is `value`. Heights never fall; the same height replaces. */
  set(height: number, value: T): void {
    if (this.#heights.at(-1) === height) this.#values[this.#values.length - 1] = value;
    else {
      this.#heights.push(height);
      this.#values.push(value);
    }
  }

  /** The value at the end of block `height`; undefined before the first. */
  at(height: number): T | undefined {
    let low = 0;
    let high = this.#heights.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#heights[middle] ?? 0) <= height) low = middle + 1;
      else high = middle;
    }
    return this.#values[low - 1];
  }
}
