/** For how long a text of metrics is given out after it was made: requests for it cost little more than their bytes. */
export const metricsMaxAgeMs = 1_000;

/** A text that costs much to make. Requests that come while it is made, or within {@link metricsMaxAgeMs}, share it. */
export class CachedText {
  #text: Promise<string> | undefined;
  #madeAtMs = Number.POSITIVE_INFINITY;

  /** @param make must not reject */
  constructor(private readonly make: () => Promise<string>) {}

  get(): Promise<string> {
    if (this.#text === undefined || performance.now() - this.#madeAtMs > metricsMaxAgeMs) {
      this.#madeAtMs = Number.POSITIVE_INFINITY;
      this.#text = this.make().finally(() => {
        this.#madeAtMs = performance.now();
      });
    }
    return this.#text;
  }
}
