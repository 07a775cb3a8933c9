import { MarketDepthUpdateSchema, PriceLevelSchema } from "../../gen/vega/vega_pb.js";
import type { DepthLevel, DepthUpdate } from "../domain/depth-book.js";

/**
 * The two encodings of `vega.MarketDepthUpdate`, straight from a book's levels: what protobuf-es makes of the message,
 * byte for byte (a test holds it), several times as fast, because every changed level of every market passes here.
 */
export function depthUpdateBinary(update: DepthUpdate): Uint8Array {
  scratch.begin();
  writeUpdate(update);
  return scratch.end();
}

/** The JSON text. Prices are decimal text, and need no escapes. */
export function depthUpdateJson({ marketId, buy, sell, sequenceNumber, previousSequenceNumber }: DepthUpdate): string {
  const levels = `"buy":[${buy.map(levelJson).join(",")}],"sell":[${sell.map(levelJson).join(",")}]`;
  const numbers = `"sequenceNumber":"${sequenceNumber}","previousSequenceNumber":"${previousSequenceNumber}"`;
  return `{"marketId":${JSON.stringify(marketId)},${levels},${numbers}}`;
}

function levelJson({ price, numberOfOrders, volume }: DepthLevel): string {
  return `{"price":"${price}","numberOfOrders":"${numberOfOrders}","volume":"${volume}"}`;
}

const varint = 0;
const lengthDelimited = 2;

/** A field's tag; all of these have numbers below 16, so it is one byte. */
function tag(field: { readonly number: number }, wireType: number): number {
  return (field.number << 3) | wireType;
}

const updateTags = {
  marketId: tag(MarketDepthUpdateSchema.field.marketId, lengthDelimited),
  buy: tag(MarketDepthUpdateSchema.field.buy, lengthDelimited),
  sell: tag(MarketDepthUpdateSchema.field.sell, lengthDelimited),
  sequenceNumber: tag(MarketDepthUpdateSchema.field.sequenceNumber, varint),
  previousSequenceNumber: tag(MarketDepthUpdateSchema.field.previousSequenceNumber, varint),
};

const levelTags = {
  price: tag(PriceLevelSchema.field.price, lengthDelimited),
  numberOfOrders: tag(PriceLevelSchema.field.numberOfOrders, varint),
  volume: tag(PriceLevelSchema.field.volume, varint),
};

const scratchBytesAtFirst = 1 << 16;
/** More than a level or an update's own fields take beside their text. */
const fixedBytesMax = 64;
const utf8BytesPerCharacterMax = 3;
/** Seven times seven bits: as many of a varint's bytes as a number holds exactly. */
const exactBits = 49;
const exactBytes = 7;

/** Memory that messages are written into, one after the other. */
class Scratch {
  #bytes = Buffer.allocUnsafeSlow(scratchBytesAtFirst);
  #at = 0;

  begin(): void {
    this.#at = 0;
  }

  /** A copy of what was written. */
  end(): Uint8Array {
    return Buffer.from(this.#bytes.subarray(0, this.#at));
  }

  /** Makes room for what has text of so many characters. */
  reserve(characters: number): void {
    const needed = this.#at + fixedBytesMax + characters * utf8BytesPerCharacterMax;
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(2 * needed);
    this.#bytes.copy(larger, 0, 0, this.#at);
    this.#bytes = larger;
  }

  /** Left out when empty, as proto3 has it. */
  text(fieldTag: number, text: string): void {
    if (text === "") return;
    this.#bytes[this.#at++] = fieldTag;
    const start = this.open();
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      if (code > 0x7f) {
        this.#at = start + this.#bytes.write(text, start);
        break;
      }
      this.#bytes[this.#at++] = code;
    }
    this.close(start);
  }

  /** Left out when zero, as proto3 has it. */
  uint64(fieldTag: number, value: bigint): void {
    if (value === 0n) return;
    this.#bytes[this.#at++] = fieldTag;
    if (value <= Number.MAX_SAFE_INTEGER) {
      this.#number(Number(value));
      return;
    }
    let low = Number(BigInt.asUintN(exactBits, value));
    for (let i = 0; i < exactBytes; i++) {
      this.#bytes[this.#at++] = (low % 0x80) + 0x80;
      low = Math.floor(low / 0x80);
    }
    this.#number(Number(value >> BigInt(exactBits)));
  }

  /** Begins a message inside of the one being written; gives where, for {@link close}. */
  message(fieldTag: number): number {
    this.#bytes[this.#at++] = fieldTag;
    return this.open();
  }

  /** Leaves room for a length of one byte. */
  open(): number {
    return ++this.#at;
  }

  /** Writes the length of what began at `start`, and moves that if the length is longer than one byte. */
  close(start: number): void {
    const length = this.#at - start;
    if (length < 0x80) {
      this.#bytes[start - 1] = length;
      return;
    }
    const more = length < 0x4000 ? 1 : length < 0x20_0000 ? 2 : length < 0x1000_0000 ? 3 : 4;
    this.#bytes.copyWithin(start + more, start, this.#at);
    this.#at = start - 1;
    this.#number(length);
    this.#at += length;
  }

  #number(value: number): void {
    let rest = value;
    while (rest > 0x7f) {
      this.#bytes[this.#at++] = (rest % 0x80) + 0x80;
      rest = Math.floor(rest / 0x80);
    }
    this.#bytes[this.#at++] = rest;
  }
}

const scratch = new Scratch();

function writeUpdate({ marketId, buy, sell, sequenceNumber, previousSequenceNumber }: DepthUpdate): void {
  scratch.reserve(marketId.length);
  scratch.text(updateTags.marketId, marketId);
  for (const level of buy) writeLevel(updateTags.buy, level);
  for (const level of sell) writeLevel(updateTags.sell, level);
  scratch.reserve(0);
  scratch.uint64(updateTags.sequenceNumber, sequenceNumber);
  scratch.uint64(updateTags.previousSequenceNumber, previousSequenceNumber);
}

function writeLevel(fieldTag: number, { price, numberOfOrders, volume }: DepthLevel): void {
  scratch.reserve(price.length);
  const start = scratch.message(fieldTag);
  scratch.text(levelTags.price, price);
  scratch.uint64(levelTags.numberOfOrders, numberOfOrders);
  scratch.uint64(levelTags.volume, volume);
  scratch.close(start);
}
