import { crc32 } from "node:zlib";
import { ChecksumAlgorithm } from "../../gen/marketd/events/v1/venue_pb.js";
import { scaled } from "../domain/decimal-text.js";

/** A level of the book, in scaled integers. */
interface ScaledLevel {
  readonly price: string;
  readonly volume: bigint;
}

/** A book, best prices first, with the scale of its numbers. */
export interface ScaledBook {
  readonly bids: readonly ScaledLevel[];
  readonly asks: readonly ScaledLevel[];
  readonly priceDecimals: number;
  readonly sizeDecimals: number;
}

/** Unsigned checksums of a book, by algorithm. */
const checksums: ReadonlyMap<ChecksumAlgorithm, (book: ScaledBook) => number> = new Map([
  [ChecksumAlgorithm.CRC32_OF_10, crc32Of10],
  [ChecksumAlgorithm.CRC32_OF_25, (book) => crc32Of25(book, (text) => text)],
  [ChecksumAlgorithm.CRC32_OF_25_SHORTEST, (book) => crc32Of25(book, shortest)],
]);

/** The function that computes a book's checksum; undefined for an unknown algorithm. */
export function checksumOf(algorithm: ChecksumAlgorithm): ((book: ScaledBook) => number) | undefined {
  return checksums.get(algorithm);
}

/** A scaled integer is the decimal number without its point and leading zeros. */
function crc32Of10({ bids, asks }: ScaledBook): number {
  const best = [...asks.slice(0, 10), ...bids.slice(0, 10)];
  return crc32(best.map(({ price, volume }) => `${price}${volume}`).join(""));
}

function crc32Of25({ bids, asks, priceDecimals, sizeDecimals }: ScaledBook, format: (text: string) => string): number {
  const text = ({ price, volume }: ScaledLevel) =>
    `${format(scaled(price, priceDecimals, ""))}:${format(scaled(volume, sizeDecimals, ""))}`;
  const parts: string[] = [];
  for (let index = 0; index < 25; index++) {
    for (const level of [bids[index], asks[index]]) if (level !== undefined) parts.push(text(level));
  }
  return crc32(parts.join(":"));
}

/** Without trailing zeros of the decimals, and without the point if no decimals are left. */
function shortest(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}
