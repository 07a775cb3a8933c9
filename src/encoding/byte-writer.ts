/** The initial size of the buffer, in bytes, to which it returns after a larger message. */
const initialBytes = 1 << 16;

/** Numbers of at most this many bits are exact, and seven varint bytes. */
const exactBits = 49;
const exactBytes = 7;

/** Longer text is written by the platform; its call costs as much as about thirty characters. */
const shortTextLength = 32;

/** The longest varint, and the most bytes of a tag. */
const varintBytesMax = 10;
const utf8BytesPerUnitMax = 3;

/** Writes protobuf's wire types into a growing buffer. https://protobuf.dev/programming-guides/encoding/ */
export class ByteWriter {
  #bytes = Buffer.allocUnsafeSlow(initialBytes);
  #at = 0;

  /** Starts a new message and discards the previous one. */
  begin(): void {
    this.#at = 0;
    if (this.#bytes.length > 16 * initialBytes) this.#bytes = Buffer.allocUnsafeSlow(initialBytes);
  }

  /** A copy of what was written, behind `headBytes` bytes that the caller writes. */
  finish(headBytes: number): Buffer {
    if (headBytes === 0) return Buffer.from(this.#bytes.subarray(0, this.#at));
    const copy = Buffer.allocUnsafeSlow(headBytes + this.#at);
    this.#bytes.copy(copy, headBytes, 0, this.#at);
    return copy;
  }

  /** An unsigned number of up to 53 bits. */
  varint(value: number): void {
    this.#reserve(varintBytesMax);
    this.#number(value);
  }

  /** A 64-bit number; negative ones in two's complement. */
  varint64(value: bigint): void {
    if (value >= 0n && value <= Number.MAX_SAFE_INTEGER) {
      this.varint(Number(value));
      return;
    }
    this.#reserve(varintBytesMax);
    const unsigned = BigInt.asUintN(64, value);
    let low = Number(BigInt.asUintN(exactBits, unsigned));
    for (let i = 0; i < exactBytes; i++) {
      this.#bytes[this.#at++] = (low % 0x80) + 0x80;
      low = Math.floor(low / 0x80);
    }
    this.#number(Number(unsigned >> BigInt(exactBits)));
  }

  double(value: number): void {
    this.#reserve(8);
    this.#at = this.#bytes.writeDoubleLE(value, this.#at);
  }

  /** Length and UTF-8. */
  text(text: string): void {
    this.#reserve(varintBytesMax + text.length * utf8BytesPerUnitMax);
    const start = this.open();
    if (text.length > shortTextLength) this.#at += this.#bytes.write(text, start);
    else this.#shortText(text, start);
    this.close(start);
  }

  /** Length and bytes. */
  bytes(bytes: Uint8Array): void {
    this.varint(bytes.length);
    this.raw(bytes);
  }

  raw(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  /** Reserves one byte for a length. Returns where the content starts, for {@link close}. */
  open(): number {
    this.#reserve(varintBytesMax);
    return ++this.#at;
  }

  /** Writes the length of the content that starts at `start`, and moves it if the length takes more than a byte. */
  close(start: number): void {
    const length = this.#at - start;
    if (length < 0x80) {
      this.#bytes[start - 1] = length;
      return;
    }
    this.#reserve(varintBytesMax);
    const more = length < 0x4000 ? 1 : length < 0x20_0000 ? 2 : length < 0x1000_0000 ? 3 : 4;
    this.#bytes.copyWithin(start + more, start, this.#at);
    this.#at = start - 1;
    this.#number(length);
    this.#at += length;
  }

  #shortText(text: string, start: number): void {
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      if (code > 0x7f) {
        this.#at = start + this.#bytes.write(text, start);
        return;
      }
      this.#bytes[this.#at++] = code;
    }
  }

  #number(value: number): void {
    let rest = value;
    while (rest > 0x7f) {
      this.#bytes[this.#at++] = (rest % 0x80) + 0x80;
      rest = Math.floor(rest / 0x80);
    }
    this.#bytes[this.#at++] = rest;
  }

  #reserve(bytes: number): void {
    const needed = this.#at + bytes;
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(2 * needed);
    this.#bytes.copy(larger, 0, 0, this.#at);
    this.#bytes = larger;
  }
}
