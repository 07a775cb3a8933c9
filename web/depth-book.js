// An order book, kept by folding the updates of a depth stream: each level that changed, with its value now.

export class DepthBook {
  #buy = new Map();
  #sell = new Map();
  /** That of the newest update; undefined before the first. */
  sequenceNumber;

  /** Folds an update in. @returns {boolean} false: something is missing before it, and the stream must start anew */
  apply(update) {
    const next = BigInt(update.sequenceNumber);
    const previous = BigInt(update.previousSequenceNumber);
    if (previous === 0n) {
      // A whole book.
      this.#buy.clear();
      this.#sell.clear();
    } else if (this.sequenceNumber === undefined || previous > this.sequenceNumber) {
      return false;
    } else if (next <= this.sequenceNumber) {
      return true;
    }
    fold(this.#buy, update.buy);
    fold(this.#sell, update.sell);
    this.sequenceNumber = next;
    return true;
  }

  /** Highest price first. */
  get buy() {
    return sorted(this.#buy, -1);
  }

  /** Lowest price first. */
  get sell() {
    return sorted(this.#sell, 1);
  }
}

function fold(levels, changed) {
  for (const level of changed) {
    if (level.volume === "0" && level.numberOfOrders === "0") levels.delete(level.price);
    else levels.set(level.price, level);
  }
}

function sorted(levels, direction) {
  return [...levels.values()].sort((one, other) => {
    const [a, b] = [BigInt(one.price), BigInt(other.price)];
    return a === b ? 0 : (a < b ? -1 : 1) * direction;
  });
}
