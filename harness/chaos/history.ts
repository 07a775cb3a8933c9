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
    return this.#values[this.#indexAt(height)];
  }

  get newest(): T | undefined {
    return this.#values.at(-1);
  }

  /** Every value that held at the end of a block from `low` to `high`; undefined among them if there was none at `low`. */
  between(low: number, high: number): (T | undefined)[] {
    const first = this.#indexAt(low);
    const last = this.#indexAt(high);
    const values: (T | undefined)[] = first < 0 ? [undefined] : [];
    for (let index = Math.max(0, first); index <= last; index++) values.push(this.#values[index]);
    return values;
  }

  /** The height from which the value at `height` has held; 0 before the first. */
  since(height: number): number {
    return this.#heights[this.#indexAt(height)] ?? 0;
  }

  #indexAt(height: number): number {
    let low = 0;
    let high = this.#heights.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#heights[middle] ?? 0) <= height) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}
