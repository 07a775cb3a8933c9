const slotsAtFirst = 4_096;
const bytesAtFirst = 256 * 1024;

/** The most bytes of keys, of some five million accounts. Their places are 32-bit numbers. */
export const indexBytesMax = 1024 * 1024 * 1024;

/**
 * A map with byte sequences as keys, which are looked up in place, without making text of them. Keys are never removed;
 * those that come when it is full are not added. Four bytes at a time are hashed and compared, because it is used twice
 * for every ledger entry.
 */
export class ByteIndex<V> {
  /** 1 + the number of an entry; 0 if free. */
  #slots = new Int32Array(slotsAtFirst);
  /** Per entry: its hash, and the start and length of its bytes. */
  #meta = new Int32Array(slotsAtFirst * 3);
  #values: V[] = [];
  #bytes = Buffer.alloc(bytesAtFirst);
  #view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset, this.#bytes.byteLength);
  #length = 0;
  #hash = 0;

  constructor(private readonly bytesMax = indexBytesMax) {}

  /** The value of the bytes from `start` to `stop`, or undefined. `view` must be of the same buffer. */
  get(view: DataView, start: number, stop: number): V | undefined {
    const hash = hashOf(view, start, stop);
    this.#hash = hash;
    const mask = this.#slots.length - 1;
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const entry = (this.#slots[slot] ?? 0) - 1;
      if (entry < 0) return undefined;
      if (this.#meta[entry * 3] !== hash || this.#meta[entry * 3 + 2] !== stop - start) continue;
      if (this.#isAt(this.#meta[entry * 3 + 1] ?? 0, view, start, stop)) return this.#values[entry];
    }
  }

  /** Adds the bytes that the last `get` did not find, unless it is full. */
  add(bytes: Uint8Array, value: V): void {
    if (this.#length + bytes.length > this.bytesMax) return;
    const entry = this.#values.length;
    if ((entry + 1) * 2 > this.#slots.length) this.#growSlots();
    if (this.#length + bytes.length > this.#bytes.length) this.#growBytes(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#meta[entry * 3] = this.#hash;
    this.#meta[entry * 3 + 1] = this.#length;
    this.#meta[entry * 3 + 2] = bytes.length;
    this.#length += bytes.length;
    this.#values.push(value);
    this.#place(entry);
  }

  #isAt(at: number, view: DataView, start: number, stop: number): boolean {
    const own = this.#view;
    let mine = at;
    let theirs = start;
    for (; theirs + 4 <= stop; theirs += 4, mine += 4) {
      if (own.getInt32(mine) !== view.getInt32(theirs)) return false;
    }
    for (; theirs < stop; theirs++, mine++) {
      if (own.getUint8(mine) !== view.getUint8(theirs)) return false;
    }
    return true;
  }

  #place(entry: number): void {
    const mask = this.#slots.length - 1;
    let slot = (this.#meta[entry * 3] ?? 0) & mask;
    while (this.#slots[slot] !== 0) slot = (slot + 1) & mask;
    this.#slots[slot] = entry + 1;
  }

  #growSlots(): void {
    const meta = new Int32Array(this.#meta.length * 2);
    meta.set(this.#meta);
    this.#meta = meta;
    this.#slots = new Int32Array(this.#slots.length * 2);
    for (let entry = 0; entry < this.#values.length; entry++) this.#place(entry);
  }

  #growBytes(more: number): void {
    const larger = Buffer.alloc(Math.max(this.#bytes.length * 2, this.#length + more));
    larger.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = larger;
    this.#view = new DataView(larger.buffer, larger.byteOffset, larger.byteLength);
  }
}

function hashOf(view: DataView, start: number, stop: number): number {
  let hash = stop - start;
  let at = start;
  for (; at + 4 <= stop; at += 4) {
    hash = Math.imul(hash ^ view.getInt32(at), 0x9e3779b1);
    hash ^= hash >>> 15;
  }
  for (; at < stop; at++) hash = Math.imul(hash ^ view.getUint8(at), 0x85ebca6b);
  return hash ^ (hash >>> 13);
}
