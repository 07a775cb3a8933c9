import { crc32 } from "node:zlib";
import { invalidArgument, repeated } from "./failure.js";

/** The lists that are ordered by id. */
export type IdListName = "assets" | "markets";

/** The lists that have cursors. A cursor is valid for its own list only. */
export type ListName = "ledger" | "bundles" | "changes" | "trades" | "accounts" | PlaceListName | IdListName;

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

/** A ledger cursor whose position bytes are overwritten each time: a page may need a thousand of them. */
const entryCursor = Buffer.from(encodeCursor("ledger", new Uint8Array(8)), "base64url");
const entryChecksumAt = entryCursor.length - checksumBytes;
const entryChecked = entryCursor.subarray(0, entryChecksumAt);

/** The cursor of a ledger entry. */
export function encodeEntryCursor(id: bigint): string {
  entryCursor.writeBigUInt64BE(id, entryChecksumAt - 8);
  entryCursor.writeUInt32BE(crc32(entryChecked), entryChecksumAt);
  return entryCursor.toString("base64url");
}

/** The entry id in a ledger cursor. @throws Failure naming `field` */
export function decodeEntryCursor(field: string, text: string): bigint {
  return numberIn(field, decodeCursor("ledger", field, text));
}

/** The position of a signer-removed bundle: its time, then its signature id. */
export interface BundlePlace {
  readonly timeNs: bigint;
  readonly signatureId: string;
}

/** The cursor of a bundle. */
export function encodeBundleCursor(place: BundlePlace): string {
  const bytes = Buffer.allocUnsafe(8 + place.signatureId.length);
  bytes.writeBigInt64BE(place.timeNs, 0);
  bytes.write(place.signatureId, 8, "latin1");
  return encodeCursor("bundles", bytes);
}

/** The position in a bundle cursor. @throws Failure naming `field` */
export function decodeBundleCursor(field: string, text: string): BundlePlace {
  const position = decodeCursor("bundles", field, text);
  if (position.length < 8) throw invalidCursor(field);
  return { timeNs: position.readBigInt64BE(), signatureId: position.toString("latin1", 8) };
}

/** Lists whose positions are numbers of 64 bits: of a change's place in the stream of events, a trade, an account. */
type PositionListName = "changes" | "trades" | "accounts";

/** The cursor of a position in such a list. */
export function encodePositionCursor(list: PositionListName, position: bigint): string {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeBigUInt64BE(position);
  return encodeCursor(list, bytes);
}

/** Reads the number in a cursor of such a list. @throws Failure naming `field` */
export function decodePositionCursor(list: PositionListName): (field: string, text: string) => bigint {
  return (field, text) => numberIn(field, decodeCursor(list, field, text));
}

/** Lists whose places are two numbers: of a balance its block and its account, of a candle its time and its first trade. */
type PlaceListName = "balances" | "candles";

/** The cursor of a place in such a list. */
export function encodePlaceCursor(list: PlaceListName, first: bigint, second: bigint): string {
  const bytes = Buffer.allocUnsafe(16);
  bytes.writeBigUInt64BE(first);
  bytes.writeBigUInt64BE(second, 8);
  return encodeCursor(list, bytes);
}

/** Reads the two numbers. @throws Failure naming `field` */
export function decodePlaceCursor(list: PlaceListName, field: string, text: string): readonly [bigint, bigint] {
  const position = decodeCursor(list, field, text);
  return [numberIn(field, position.subarray(0, 8)), numberIn(field, position.subarray(8))];
}

/** The cursor of an id in a list that is ordered by id. */
export function encodeIdCursor(list: IdListName, id: string): string {
  return encodeCursor(list, Buffer.from(id, "latin1"));
}

/** Reads the id in a cursor of such a list. @throws Failure naming `field` */
export function idCursorDecoder(list: IdListName): (field: string, text: string) => string {
  return (field, text) => decodeCursor(list, field, text).toString("latin1");
}

/** The number of eight bytes that a position is. */
function numberIn(field: string, position: Buffer): bigint {
  if (position.length !== 8) throw invalidCursor(field);
  return position.readBigUInt64BE();
}
