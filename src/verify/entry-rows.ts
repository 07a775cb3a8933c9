import { type Integer, safeDigits, toInteger } from "../domain/exact-integer.js";

const tab = 0x09;
const minus = 0x2d;
const zero = 0x30;

/** An id of up to 63 bits as two numbers: the last nine digits, and those before. */
const lowDigits = 9;
export const lowMax = 10 ** lowDigits;

/** An id, split for {@link EntryRows}. */
export interface SplitId {
  readonly high: number;
  readonly low: number;
}

export function splitId(id: bigint): SplitId {
  return { high: Number(id / BigInt(lowMax)), low: Number(id % BigInt(lowMax)) };
}

/** Parses the text of ledger entries row by row, without creating strings. */
export class EntryRows {
  idHigh = 0;
  idLow = 0;
  /** The start of the row. */
  start = 0;
  from = 0;
  to = 0;
  classId = 0;
  transferType = 0;
  quantity: Integer = 0;
  fromBalance: Integer = 0;
  toBalance: Integer = 0;
  /** Rows so far. */
  count = 0;
  readonly #text: Buffer;
  #at = 0;

  constructor(text: Uint8Array) {
    this.#text = Buffer.from(text.buffer, text.byteOffset, text.byteLength);
  }

  /** Parses the id of the next row. False: there is none. */
  nextId(): boolean {
    if (this.#at >= this.#text.length) return false;
    this.count++;
    this.start = this.#at;
    let stop = this.#at;
    while (this.#text[stop] !== tab && stop < this.#text.length) stop++;
    const middle = Math.max(this.#at, stop - lowDigits);
    this.idHigh = this.#digits(this.#at, middle);
    this.idLow = this.#digits(middle, stop);
    this.#at = stop + 1;
    return true;
  }

  /** Parses the rest of the row. */
  readRow(): void {
    this.from = this.#number();
    this.to = this.#number();
    this.classId = this.#number();
    this.transferType = this.#number();
    this.#number();
    this.quantity = this.#amount();
    this.fromBalance = this.#amount();
    this.toBalance = this.#amount();
  }

  get id(): bigint {
    return BigInt(this.idHigh) * BigInt(lowMax) + BigInt(this.idLow);
  }

  /** Bytes of all rows. */
  get length(): number {
    return this.#text.length;
  }

  isId({ high, low }: SplitId): boolean {
    return this.idHigh === high && this.idLow === low;
  }

  isBefore({ high, low }: SplitId): boolean {
    return this.idHigh < high || (this.idHigh === high && this.idLow < low);
  }

  /** The text between two positions, each the start of a row or the end. */
  text(from: number, to: number): Buffer {
    return this.#text.subarray(from, to);
  }

  /** The end of the current row. */
  get end(): number {
    return Math.min(this.#at, this.#text.length);
  }

  #digits(start: number, stop: number): number {
    const text = this.#text;
    let value = 0;
    for (let i = start; i < stop; i++) value = value * 10 + (text[i] ?? zero) - zero;
    return value;
  }

  #column(): number {
    const text = this.#text;
    let stop = this.#at;
    while ((text[stop] ?? 0) > tab + 1) stop++;
    this.#at = stop + 1;
    return stop;
  }

  #number(): number {
    const start = this.#at;
    const stop = this.#column();
    return this.#text[start] === minus ? -this.#digits(start + 1, stop) : this.#digits(start, stop);
  }

  #amount(): Integer {
    const start = this.#at;
    const stop = this.#column();
    if (stop - start <= safeDigits) return this.#digits(start, stop);
    const text = this.#text.toString("latin1", start, stop);
    return /^[0-9]+$/.test(text) ? toInteger(BigInt(text)) : -1;
  }
}
