/** What waits, by whose it is. Owners take turns, each with its oldest item. */
export class OwnerQueue<T> {
  /** In the order of the owners' turns. */
  readonly #waiting = new Map<string, T[]>();

  /** Owners of items that wait. */
  get owners(): number {
    return this.#waiting.size;
  }

  /** Items of an owner that wait. */
  lengthOf(owner: string): number {
    return this.#waiting.get(owner)?.length ?? 0;
  }

  push(owner: string, item: T): void {
    const items = this.#waiting.get(owner);
    if (items === undefined) this.#waiting.set(owner, [item]);
    else items.push(item);
  }

  /** Drops an item, if it still waits. */
  drop(owner: string, item: T): void {
    const items = this.#waiting.get(owner);
    const index = items?.indexOf(item) ?? -1;
    if (index >= 0) items?.splice(index, 1);
    if (items?.length === 0) this.#waiting.delete(owner);
  }

  /** Takes the item whose turn it is; undefined: none waits. */
  shift(): T | undefined {
    for (const [owner, items] of this.#waiting) {
      const item = items.shift();
      this.#waiting.delete(owner);
      if (items.length > 0) this.#waiting.set(owner, items);
      return item;
    }
    return undefined;
  }
}
