const prime = 0x01000193;

/** Two 32-bit sums of a text: 64 bits in all, enough to tell right from wrong. */
function sumsOf(text: string): readonly [number, number] {
  let a = 0x811c9dc5;
  let b = 0xdeadbeef;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    a = Math.imul(a ^ code, prime);
    b = Math.imul(b ^ code, 0x5bd1e995);
    b ^= b >>> 13;
  }
  return [mixed(a), mixed(b)];
}

function mixed(sum: number): number {
  let value = sum ^ (sum >>> 16);
  value = Math.imul(value, 0x85ebca6b);
  value ^= value >>> 13;
  value = Math.imul(value, 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 0;
}

/** A short stand-in for a text. */
export function digestOf(text: string): string {
  return sumsOf(text).join(":");
}

/** The digest of a set of texts, whatever their order; texts can be added and taken out. */
export class SetDigest {
  #a = 0;
  #b = 0;

  add(text: string): void {
    const [a, b] = sumsOf(text);
    this.#a = (this.#a + a) >>> 0;
    this.#b = (this.#b + b) >>> 0;
  }

  remove(text: string): void {
    const [a, b] = sumsOf(text);
    this.#a = (this.#a - a) >>> 0;
    this.#b = (this.#b - b) >>> 0;
  }

  get value(): string {
    return `${this.#a}:${this.#b}`;
  }
}
