import { crc32 } from "node:zlib";
import { invalidArgument, repeated } from "./failure.js";

/** The lists that are ordered by id. */
export type IdListName = "assets" | "markets";

/** The lists that have cursors. A cursor is valid for its own list only. */
export type ListName = "bundles" | NumberListName | PlaceListName | IdListName;

const checksumBytes = 4;

/** The longest cursor that is decoded, in characters; real ones are far shorter. */
export const cursorLengthMax = 512;

/**
 * Writes a position as opaque URL-safe text: base64url of the list's name, a zero byte, the position, and the CRC-32 of
 * all of that.
 */
export function encodeCursor(list: ListName, position: Uint8Array): string {
  const bytes = Buffer.allocUnsafe(list.length + 1 + position.length + checksumBytes);
  bytes.write(list, 0, "latin1");
  bytes[list.length] = 0;
  bytes.set(position, list.length + 1);
  const end = bytes.length - checksumBytes;
  bytes.writeUInt32BE(crc32(bytes.subarray(0, end)), end);
  return bytes.toString("base64url");
}

/** Reads a cursor's position. @throws Failure naming `field` if the text is not a cursor of this list */
function decodeCursor(list: ListName, field: string, text: string): Buffer {
  const bytes = text.length > cursorLengthMax ? Buffer.alloc(0) : Buffer.from(text, "base64url");
  const end = bytes.length - checksumBytes;
  // Base64 decoding is lenient: refuse text that does not encode to itself.
  const ours =
    end > 0 && bytes.toString("base64url") === text && bytes.readUInt32BE(end) === crc32(bytes.subarray(0, end));
  const nameEnd = ours ? bytes.indexOf(0) : -1;
  if (nameEnd < 0) throw invalidCursor(field);
  const name = bytes.toString("latin1", 0, nameEnd);
  if (name !== list)
    throw invalidCursor(field, `is a cursor of another list (${repeated(name)}); this list is ${list}`);
  return bytes.subarray(nameEnd + 1, end);
}

function invalidCursor(field: string, description = "is not a cursor; take it from an earlier response, unchanged") {
  return invalidArgument(field, description, "INVALID_CURSOR");
}

/** Writes and reads the cursors of a list. */
export interface Cursors<P> {
  encode(position: P): string;
  /** @throws Failure naming `field` if the text is not a cursor of the list */
  decode(field: string, text: string): P;
}

/** Lists whose positions are numbers of 64 bits: of an entry, of a change's place in the stream of events, and so on. */
type NumberListName = "ledger" | "changes" | "trades" | "accounts";

/** The cursors of such a list. */
export function numberCursors(list: NumberListName): Cursors<bigint> {
  // Its position is overwritten each time: a page may need a thousand cursors.
  const bytes = Buffer.from(encodeCursor(list, new Uint8Array(8)), "base64url");
  const checksumAt = bytes.length - checksumBytes;
  const checked = bytes.subarray(0, checksumAt);
  return {
    encode: (position) => {
      bytes.writeBigUInt64BE(position, checksumAt - 8);
      bytes.writeUInt32BE(crc32(checked), checksumAt);
      return bytes.toString("base64url");
    },
    decode: (field, text) => numberIn(field, decodeCursor(list, field, text)),
  };
}

/** Lists whose places are two numbers: of a balance its block and its account, of a candle its time and its first trade. */
type PlaceListName = "balances" | "candles";

/** The cursors of such a list, whose numbers `toNumbers` gives and `toPlace` takes. */
export function placeCursors<P>(
  list: PlaceListName,
  toNumbers: (place: P) => readonly [bigint, bigint],
  toPlace: (first: bigint, second: bigint) => P,
): Cursors<P> {
  return {
    encode: (place) => {
      const [first, second] = toNumbers(place);
      const bytes = Buffer.allocUnsafe(16);
      bytes.writeBigUInt64BE(first);
      bytes.writeBigUInt64BE(second, 8);
      return encodeCursor(list, bytes);
    },
    decode: (field, text) => {
      const position = decodeCursor(list, field, text);
      return toPlace(numberIn(field, position.subarray(0, 8)), numberIn(field, position.subarray(8)));
    },
  };
}

/** The cursors of a list that is ordered by id. */
export function idCursors(list: IdListName): Cursors<string> {
  return {
    encode: (id) => encodeCursor(list, Buffer.from(id, "latin1")),
    decode: (field, text) => decodeCursor(list, field, text).toString("latin1"),
  };
}

/** The position of a signer-removed bundle: its time, then its signature id. */
export interface BundlePlace {
  readonly timeNs: bigint;
  readonly signatureId: string;
}

export const bundleCursors: Cursors<BundlePlace> = {
  encode: ({ timeNs, signatureId }) => {
    const bytes = Buffer.allocUnsafe(8 + signatureId.length);
    bytes.writeBigInt64BE(timeNs, 0);
    bytes.write(signatureId, 8, "latin1");
    return encodeCursor("bundles", bytes);
  },
  decode: (field, text) => {
    const position = decodeCursor("bundles", field, text);
    if (position.length < 8) throw invalidCursor(field);
    return { timeNs: position.readBigInt64BE(), signatureId: position.toString("latin1", 8) };
  },
};

/** The number of eight bytes that a position is. */
function numberIn(field: string, position: Buffer): bigint {
  if (position.length !== 8) throw invalidCursor(field);
  return position.readBigUInt64BE();
}
