/** FNV-1a over the text's UTF-16 units: 32 bits. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return value >>> 0;
}

/**
 * A random number generator (sfc32) whose sequence depends only on a seed and a name. It uses 32-bit integer
 * arithmetic, so the sequence is the same on every machine. Each part of the network has a generator with its own name,
 * so that changes of one part do not affect the others.
 */
export class Random {
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  constructor(seed: number, name: string) {
    this.#a = hash(`${seed}/${name}`);
    this.#b = hash(`${name}/${seed}`);
    this.#c = 0x9e3779b9;
    for (let i = 0; i < 16; i++) this.u32();
  }

  /** A whole number of 32 bits. */
  u32(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0;
    return sum >>> 0;
  }

  /** From 0 to below 1. */
  unit(): number {
    return this.u32() / 0x1_0000_0000;
  }

  /** A whole number from 0 to below `limit` (at most 2^32). */
  below(limit: number): number {
    return Math.floor(this.unit() * limit);
  }

  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number {
    return low + this.below(high - low + 1);
  }

  /** Around 0, from -3 to 3, denser in the middle: the sum of six uniform numbers, because Math.log is not exact. */
  bell(): number {
    let sum = -3;
    for (let i = 0; i < 6; i++) sum += this.unit();
    return sum;
  }

  chance(probability: number): boolean {
    return this.unit() < probability;
  }

  /** @throws RangeError if there is nothing to pick from */
  pick<T>(items: readonly T[]): T {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new RangeError("nothing to pick from");
    return item;
  }

  /** Lower-case hexadecimal of `byteCount` random bytes. */
  hex(byteCount: number): string {
    return Buffer.from(this.bytes(byteCount)).toString("hex");
  }

  /** An identifier of the network: 64 hexadecimal characters. */
  identifier(): string {
    return this.hex(32);
  }

  bytes(count: number): Uint8Array {
    const bytes = new Uint8Array(count);
    for (let i = 0; i < count; i++) bytes[i] = this.u32() & 0xff;
    return bytes;
  }
}
