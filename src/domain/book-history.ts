import { hash } from "node:crypto";
import { add, type Integer, safeDigits, toInteger } from "./exact-integer.js";
import { OperatorError } from "./operator-error.js";
import type { ChangedLevel } from "./order-book.js";
import { type BookSide, sides } from "./price-ladder.js";
import { runAtOnce } from "./work-pacer.js";

/*
 * How the past of a book is stored. Integers are variable-length: seven bits a byte, the lowest first, no longer than
 * needed; a signed one is 2n, or -2n - 1 below 0. Every encoding is a function of its content alone.
 *
 *   levels    buys, sells, prices, volumes, numbers of orders; buys before sells, each side best first
 *   update    height, number offset (signed), levels                                     (`book_change.body`)
 *   keyframe  levels                                                (`book_segment_part`, before it is deflated)
 *   segment   for each column of {@link segmentColumns}: its length in bytes; then the columns     (the same)
 *
 * Prices of a side are signed differences: from the one before in the same update or keyframe; of a segment's update,
 * the first one from the first one of the update before on that side.
 */

/** The levels that a block changed in one market, with their values at its end. */
export interface BookUpdate {
  /** Of the block's end. */
  readonly streamSequence: bigint;
  /** Of the block. */
  readonly height: bigint;
  /** The update's published sequence number less {@link numberBase} of the block's time. */
  readonly numberOffset: bigint;
  /** Distinct, not empty; buys before sells, each side best first: see `sortLevels`. */
  readonly levels: readonly ChangedLevel[];
}

/** What is stored is not what {@link encodeUpdate}, {@link encodeKeyframe} or {@link SegmentEncoder} wrote. */
export class MalformedHistoryError extends OperatorError {
  constructor(reason: string) {
    super(`the stored past of a book is not what was written (run marketd verify): ${reason}`);
    this.name = "MalformedHistoryError";
  }
}

/** What an update's number is stored relative to: the block's time floored to the microsecond, in nanoseconds. */
export function numberBase(blockTimeNs: bigint): bigint {
  return blockTimeNs - (blockTimeNs % 1_000n);
}

/**
 * Changed levels after which a segment is sealed, given the levels of its keyframe: four times as many, so that keyframes
 * take much less than changes; but 1,024 at least, which compress well, and no more than 4,096, which are read within
 * milliseconds, except for books of more than 2,048 levels, whose keyframes cost more: twice as many.
 */
export function changesPerSegment(keyframeLevels: number): number {
  const usual = Math.min(4_096, Math.max(1_024, 4 * keyframeLevels));
  return Math.min(changesPerSegmentMax, Math.max(usual, 2 * keyframeLevels));
}

/** A segment holds fewer changed levels than this before its last update. */
export const changesPerSegmentMax = 65_536;

/** The body of an update on its own. */
export function encodeUpdate({ height, numberOffset, levels }: BookUpdate): Uint8Array {
  const column = new Column();
  column.unsigned(height);
  column.signed(numberOffset);
  writeLevels(column, levels);
  return column.bytes();
}

/** @throws MalformedHistoryError */
export function decodeUpdate(streamSequence: bigint, body: Uint8Array): BookUpdate {
  const column = new ColumnReader(body);
  const height = column.uint64();
  const numberOffset = BigInt(column.signed());
  const levels = runAtOnce(readLevels(column));
  column.end();
  return { streamSequence, height, numberOffset, levels };
}

/** A whole book; its levels in the order of `sortLevels`. */
export function encodeKeyframe(levels: readonly ChangedLevel[]): Uint8Array {
  const column = new Column();
  writeLevels(column, levels);
  return column.bytes();
}

/** @throws MalformedHistoryError */
export function decodeKeyframe(content: Uint8Array): ChangedLevel[] {
  return runAtOnce(keyframeSteps(content));
}

/** The same in steps: a large book takes tens of milliseconds. */
export function* keyframeSteps(content: Uint8Array): Generator<void, ChangedLevel[]> {
  const column = new ColumnReader(content);
  const levels = yield* readLevels(column);
  column.end();
  return levels;
}

/** Where a segment begins: what its first update is stored relative to. */
export interface SegmentStart {
  readonly firstSequence: bigint;
  readonly height: bigint;
}

/** Values of one kind next to each other compress to about half of what updates in a row do. */
const segmentColumns = ["sequences", "heights", "offsets", "buys", "sells", "prices", "volumes", "orders"] as const;

type SegmentColumns<C> = Record<(typeof segmentColumns)[number], C>;

/** Encodes the updates of a segment as they come. */
export class SegmentEncoder {
  readonly #columns: SegmentColumns<Column> = eachColumn(() => new Column());
  readonly #first: Record<BookSide, Integer> = { [sides.buy]: 0, [sides.sell]: 0 };
  #sequence: bigint;
  #height: bigint;
  /** Levels in all its updates. */
  changedLevels = 0;

  constructor({ firstSequence, height }: SegmentStart) {
    this.#sequence = firstSequence;
    this.#height = height;
  }

  /** Adds an update of a later block. */
  append({ streamSequence, height, numberOffset, levels }: BookUpdate): void {
    const { sequences, heights, offsets, buys, sells, prices, volumes, orders } = this.#columns;
    sequences.unsigned(streamSequence - this.#sequence);
    heights.unsigned(height - this.#height);
    offsets.signed(numberOffset);
    const buyLevels = countBuys(levels);
    buys.unsigned(buyLevels);
    sells.unsigned(levels.length - buyLevels);
    writePrices(prices, levels, this.#first);
    for (const level of levels) {
      volumes.unsigned(level.volume);
      orders.unsigned(level.numberOfOrders);
    }
    this.#sequence = streamSequence;
    this.#height = height;
    this.changedLevels += levels.length;
  }

  /** The content of the segment up to now; empty if it has no update. */
  content(): Uint8Array {
    if (this.changedLevels === 0) return new Uint8Array();
    const lengths = new Column();
    const columns = segmentColumns.map((name) => this.#columns[name].bytes());
    for (const { length } of columns) lengths.unsigned(length);
    return Buffer.concat([lengths.bytes(), ...columns]);
  }
}

/**
 * The updates of a segment in order, each decoded when it is asked for.
 * @throws MalformedHistoryError where the content is not that of a {@link SegmentEncoder}
 */
export function* decodeSegment({ firstSequence, height }: SegmentStart, content: Uint8Array): Generator<BookUpdate> {
  if (content.length === 0) return;
  const { sequences, heights, offsets, buys, sells, prices, volumes, orders } = splitColumns(content);
  const first: Record<BookSide, Integer> = { [sides.buy]: 0, [sides.sell]: 0 };
  let streamSequence = firstSequence;
  let blockHeight = height;
  while (!sequences.isAtEnd) {
    const step = sequences.uint64();
    if (step === 0n) throw new MalformedHistoryError("two updates have one place");
    streamSequence += step;
    blockHeight += heights.uint64();
    const numberOffset = BigInt(offsets.signed());
    const counts = { buys: buys.count(), sells: sells.count() };
    if (counts.buys + counts.sells === 0) throw new MalformedHistoryError("an update has no level");
    const reader = new PriceReader(prices, counts, first, volumes, orders);
    reader.read(counts.buys + counts.sells);
    yield { streamSequence, height: blockHeight, numberOffset, levels: reader.levels };
  }
  if (streamSequence === firstSequence) throw new MalformedHistoryError("it has no update");
  for (const column of [heights, offsets, buys, sells, prices, volumes, orders]) column.end();
}

/**
 * The digest of a segment when it begins, which covers its row, its keyframe and the digest of the one before. `row` is
 * the text of the row without its digest; `keyframe` is empty where the segment has none.
 */
export function startDigest(before: Uint8Array, row: string, keyframe: Uint8Array): Buffer {
  return hash("sha256", Buffer.concat([before, Buffer.from(`\n${row}\n`, "latin1"), keyframe]), "buffer");
}

/** The digest of a sealed segment: of what it was when it began, and its content. */
export function sealedDigest(start: Uint8Array, content: Uint8Array): Buffer {
  return hash("sha256", Buffer.concat([start, content]), "buffer");
}

function priceOf(text: string): Integer {
  return text.length <= safeDigits ? Number(text) : toInteger(BigInt(text));
}

function countBuys(levels: readonly ChangedLevel[]): number {
  const firstSell = levels.findIndex(({ side }) => side === sides.sell);
  return firstSell < 0 ? levels.length : firstSell;
}

function writeLevels(column: Column, levels: readonly ChangedLevel[]): void {
  const buys = countBuys(levels);
  column.unsigned(buys);
  column.unsigned(levels.length - buys);
  writePrices(column, levels, { [sides.buy]: 0, [sides.sell]: 0 });
  for (const { volume } of levels) column.unsigned(volume);
  for (const { numberOfOrders } of levels) column.unsigned(numberOfOrders);
}

/** Levels between two yields of {@link readLevels}: less than a millisecond. */
const levelsPerStep = 1_024;

function* readLevels(column: ColumnReader): Generator<void, ChangedLevel[]> {
  const counts = { buys: column.count(), sells: column.count() };
  const prices = new PriceReader(column, counts, { [sides.buy]: 0, [sides.sell]: 0 });
  while (!prices.read(levelsPerStep)) yield;
  const { levels } = prices;
  for (let n = 0; n < levels.length; n++) {
    if (n % levelsPerStep === 0) yield;
    (levels[n] as ReadLevel).volume = column.uint64();
  }
  for (let n = 0; n < levels.length; n++) {
    if (n % levelsPerStep === 0) yield;
    (levels[n] as ReadLevel).numberOfOrders = column.uint64();
  }
  return levels;
}

/** `first` holds the first price of the update before, by side, and is moved on. */
function writePrices(column: Column, levels: readonly ChangedLevel[], first: Record<BookSide, Integer>): void {
  let side: BookSide | undefined;
  let before: Integer = 0;
  for (const level of levels) {
    const price = priceOf(level.price);
    if (level.side !== side) {
      side = level.side;
      before = first[side];
      first[side] = price;
    }
    column.signed(add(price, -before));
    before = price;
  }
}

/** A level that is being read. */
type ReadLevel = { -readonly [K in keyof ChangedLevel]: ChangedLevel[K] };

/** Reads levels with their prices, and with volumes and orders where those are in other columns. */
class PriceReader {
  readonly levels: ReadLevel[] = [];
  #price: Integer = 0;

  /** `first` holds the first price of the update before, by side, and is moved on. */
  constructor(
    private readonly column: ColumnReader,
    private readonly counts: { readonly buys: number; readonly sells: number },
    private readonly first: Record<BookSide, Integer>,
    private readonly volumes?: ColumnReader,
    private readonly orders?: ColumnReader,
  ) {}

  /** Reads at most so many more. True: it has read all. */
  read(most: number): boolean {
    const { column, counts, first, volumes, orders, levels } = this;
    const all = counts.buys + counts.sells;
    const end = Math.min(all, levels.length + most);
    let price = this.#price;
    for (let n = levels.length; n < end; n++) {
      const side = n < counts.buys ? sides.buy : sides.sell;
      const isFirst = n === 0 || n === counts.buys;
      if (isFirst) price = first[side];
      const step = column.signed();
      if (!isFirst && (side === sides.buy ? step >= 0 : step <= 0)) {
        throw new MalformedHistoryError("levels are unsorted");
      }
      price = add(price, step);
      if (price <= 0 || price > priceMax) throw new MalformedHistoryError("a price is out of range");
      if (isFirst) first[side] = price;
      const [volume, numberOfOrders] = [volumes?.uint64() ?? 0n, orders?.uint64() ?? 0n];
      levels.push({ side, price: String(price), volume, numberOfOrders });
    }
    this.#price = price;
    return end === all;
  }
}

const priceMax = (1n << 256n) - 1n;
const uint64Max = (1n << 64n) - 1n;

/** The bytes of one integer: of a difference of two prices, which has a sign. */
const integerBytesMax = Math.ceil(257 / 7);

/** Most numbers of orders: a bigint takes memory. */
const smallIntegers = Array.from({ length: 256 }, (_, value) => BigInt(value));

/** Bits of integers that are written and read as numbers of 32 bits. */
const smallMax = 0x7fff_ffff;

/** Bytes of an integer that a safe number always holds. */
const safeBytes = 7;

/** Integers in a row. */
class Column {
  #bytes = new Uint8Array(64);
  #length = 0;

  unsigned(value: Integer): void {
    if (this.#length + integerBytesMax > this.#bytes.length) this.#grow();
    let rest = typeof value === "bigint" ? toInteger(value) : value;
    while (typeof rest === "bigint") {
      this.#bytes[this.#length++] = Number(rest & 0x7fn) | 0x80;
      rest = toInteger(rest >> 7n);
    }
    while (rest > smallMax) {
      this.#bytes[this.#length++] = (rest % 0x80) | 0x80;
      rest = Math.floor(rest / 0x80);
    }
    for (; rest >= 0x80; rest >>>= 7) this.#bytes[this.#length++] = (rest & 0x7f) | 0x80;
    this.#bytes[this.#length++] = rest;
  }

  signed(value: Integer): void {
    const doubled = add(value, value);
    this.unsigned(doubled < 0 ? add(-doubled, -1) : doubled);
  }

  bytes(): Uint8Array {
    return this.#bytes.slice(0, this.#length);
  }

  #grow(): void {
    const grown = new Uint8Array(2 * this.#bytes.length);
    grown.set(this.#bytes);
    this.#bytes = grown;
  }
}

/** Reads what a {@link Column} wrote. */
class ColumnReader {
  #at = 0;

  constructor(private readonly bytes: Uint8Array) {}

  get isAtEnd(): boolean {
    return this.#at === this.bytes.length;
  }

  get bytesLeft(): number {
    return this.bytes.length - this.#at;
  }

  end(): void {
    if (!this.isAtEnd) throw new MalformedHistoryError("bytes are left over");
  }

  unsigned(): Integer {
    const bytes = this.bytes;
    let value = 0;
    let unit = 1;
    for (let count = 1; count <= safeBytes; count++) {
      const byte = bytes[this.#at++];
      if (byte === undefined) throw new MalformedHistoryError("it ends within an integer");
      value += (byte & 0x7f) * unit;
      if (byte < 0x80) {
        if (byte === 0 && count > 1) throw new MalformedHistoryError("an integer is longer than needed");
        return value;
      }
      unit *= 0x80;
    }
    return this.#long(BigInt(value));
  }

  signed(): Integer {
    const value = this.unsigned();
    if (typeof value === "number") return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
    return toInteger(value % 2n === 0n ? value / 2n : -(value + 1n) / 2n);
  }

  uint64(): bigint {
    const value = this.unsigned();
    if (value > uint64Max) throw new MalformedHistoryError("an integer has more than 64 bits");
    return typeof value === "bigint" ? value : (smallIntegers[value] ?? BigInt(value));
  }

  /** A number of levels, each of which takes a byte at least. */
  count(): number {
    const value = this.unsigned();
    if (typeof value === "bigint" || value > levelsMax)
      throw new MalformedHistoryError("an update has too many levels");
    return value;
  }

  take(length: Integer): Uint8Array {
    if (length > this.bytesLeft) throw new MalformedHistoryError("it ends within a column");
    const from = this.#at;
    this.#at += Number(length);
    return this.bytes.subarray(from, this.#at);
  }

  #long(low: bigint): Integer {
    let value = low;
    for (let count = safeBytes; count < integerBytesMax; count++) {
      const byte = this.bytes[this.#at++];
      if (byte === undefined) throw new MalformedHistoryError("it ends within an integer");
      value += BigInt(byte & 0x7f) << BigInt(7 * count);
      if (byte === 0) throw new MalformedHistoryError("an integer is longer than needed");
      if (byte < 0x80) return toInteger(value);
    }
    throw new MalformedHistoryError("an integer has too many bytes");
  }
}

/** More levels than any book or block has: reading them ends sooner, at the end of the bytes. */
const levelsMax = 1 << 30;

function splitColumns(content: Uint8Array): SegmentColumns<ColumnReader> {
  const reader = new ColumnReader(content);
  const lengths = eachColumn(() => reader.unsigned());
  const columns = eachColumn((name) => new ColumnReader(reader.take(lengths[name])));
  reader.end();
  return columns;
}

function eachColumn<C>(make: (name: (typeof segmentColumns)[number]) => C): SegmentColumns<C> {
  const columns: Partial<SegmentColumns<C>> = {};
  for (const name of segmentColumns) columns[name] = make(name);
  return columns as SegmentColumns<C>;
}
