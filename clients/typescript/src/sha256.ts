const blockBytes = 64;

const primes = firstPrimes(64);
// FIPS 180-4, 4.2.2 and 5.3.3: the first 32 bits of the fractions of cube and square roots of the first primes.
const roundConstants = Uint32Array.from(primes, (prime) => fractionBits(Math.cbrt(prime)));
const initialState = primes.slice(0, 8).map((prime) => fractionBits(Math.sqrt(prime)));

/**
 * SHA-256 of bytes that arrive in pieces (FIPS 180-4). `crypto.subtle` needs the whole file at once, and browsers have
 * it on pages from HTTPS only.
 */
export class Sha256 {
  readonly #state = Uint32Array.from(initialState);
  readonly #schedule = new Uint32Array(64);
  readonly #block = new Uint8Array(blockBytes);
  readonly #view = new DataView(this.#block.buffer);
  #length = 0;

  update(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) {
      const used = this.#length % blockBytes;
      const piece = bytes.subarray(at, at + blockBytes - used);
      this.#block.set(piece, used);
      at += piece.length;
      this.#length += piece.length;
      if (this.#length % blockBytes === 0) this.#compress();
    }
  }

  /** In lower-case hexadecimal. Ends the use of this object. */
  digest(): string {
    const bits = BigInt(this.#length) * 8n;
    this.update(Uint8Array.of(0x80));
    const zeros = (2 * blockBytes - 8 - (this.#length % blockBytes)) % blockBytes;
    this.update(new Uint8Array(zeros));
    const length = new DataView(new ArrayBuffer(8));
    length.setBigUint64(0, bits);
    this.update(new Uint8Array(length.buffer));
    return [...this.#state].map((word) => word.toString(16).padStart(8, "0")).join("");
  }

  /** FIPS 180-4, 6.2.2. */
  #compress(): void {
    const w = this.#schedule;
    for (let t = 0; t < 16; t++) w[t] = this.#view.getUint32(4 * t);
    for (let t = 16; t < 64; t++) {
      const w2 = w[t - 2] ?? 0;
      const w15 = w[t - 15] ?? 0;
      const s1 = rotate(w2, 17) ^ rotate(w2, 19) ^ (w2 >>> 10);
      const s0 = rotate(w15, 7) ^ rotate(w15, 18) ^ (w15 >>> 3);
      w[t] = s1 + (w[t - 7] ?? 0) + s0 + (w[t - 16] ?? 0);
    }
    let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = this.#state;
    for (let t = 0; t < 64; t++) {
      const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
      const t1 = h + s1 + ((e & f) ^ (~e & g)) + (roundConstants[t] ?? 0) + (w[t] ?? 0);
      const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
      const t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      [a, b, c, d, e, f, g, h] = [(t1 + t2) | 0, a, b, c, (d + t1) | 0, e, f, g];
    }
    for (const [n, word] of [a, b, c, d, e, f, g, h].entries()) this.#state[n] = (this.#state[n] ?? 0) + word;
  }
}

function rotate(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits));
}

function fractionBits(root: number): number {
  return Math.floor((root % 1) * 2 ** 32);
}

function firstPrimes(count: number): number[] {
  const found: number[] = [];
  for (let n = 2; found.length < count; n++) if (found.every((prime) => n % prime !== 0)) found.push(n);
  return found;
}
