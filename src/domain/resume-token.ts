import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { Failure, invalidArgument } from "./failure.js";

/** In place of a token: the stream begins with the newest books, and is live from its first message on. */
export const liveToken = "live";

/** What a stream goes on with after its token. `live`: with the newest books. `past`: with the blocks that follow. */
export type TokenKind = "live" | "past";

/** What a resume token says: a reader has the books of a selection of markets as of a block. */
export interface ResumePlace {
  readonly kind: TokenKind;
  /** Of the block. */
  readonly streamSequence: bigint;
  readonly selection: Buffer;
  /** Names the store: see {@link storeHash}. */
  readonly store: Buffer;
}

/** The first byte: the version of the format, and the kind. */
const kinds = { live: 0x10, past: 0x11 } as const;

const hashBytes = 8;
const sequenceAt = 1 + 2 * hashBytes;
const checksumAt = sequenceAt + 8;
const tokenBytes = checksumAt + 4;

/** The length of every token, in characters. */
export const resumeTokenLength = Math.ceil((tokenBytes * 4) / 3);

/** A store's name in tokens: the same chain, loaded again, is another. */
export function storeHash(chainId: string, storeId: string): Buffer {
  return hash(`${chainId}\0${storeId}`);
}

/** In place of a selection: the reader lacks some book, so that every stream goes on with whole ones. */
export const noSelection = Buffer.alloc(hashBytes);

/** A selection's name in tokens: of market ids in any order, doubles included; none: every market. */
export function selectionHash(marketIds: readonly string[]): Buffer {
  return hash(JSON.stringify([...new Set(marketIds)].sort()));
}

/**
 * Writes the tokens of one store and selection: base64url of kind, hashes of the store and the selection, stream
 * sequence number, and the CRC-32 of all that.
 */
export class ResumeTokens {
  readonly #bytes = Buffer.alloc(tokenBytes);

  constructor(store: Uint8Array, selection: Uint8Array) {
    this.#bytes.set(store, 1);
    this.#bytes.set(selection, 1 + hashBytes);
  }

  at(kind: TokenKind, streamSequence: bigint): string {
    const bytes = this.#bytes;
    bytes[0] = kinds[kind];
    bytes.writeBigUInt64BE(streamSequence, sequenceAt);
    bytes.writeUInt32BE(crc32(bytes.subarray(0, checksumAt)), checksumAt);
    return bytes.toString("base64url");
  }
}

/**
 * Reads a token of a store.
 * @throws Failure `invalid_argument` naming `field` if it is malformed, `failed_precondition` if it is of another store
 */
export function readResumeToken(field: string, text: string, store: Uint8Array): ResumePlace {
  const place = parseResumeToken(text);
  if (place === undefined) {
    throw invalidArgument(field, "is not a resume token; take it from an earlier message, unchanged", "INVALID_TOKEN");
  }
  requireStore(place, store);
  return place;
}

/** Undefined: it is malformed. */
export function parseResumeToken(text: string): ResumePlace | undefined {
  if (text.length !== resumeTokenLength) return undefined;
  const bytes = Buffer.from(text, "base64url");
  // Base64 decoding is lenient: refuse text that does not encode to itself.
  if (bytes.length !== tokenBytes || bytes.toString("base64url") !== text) return undefined;
  if (bytes.readUInt32BE(checksumAt) !== crc32(bytes.subarray(0, checksumAt))) return undefined;
  const kind = bytes[0] === kinds.live ? "live" : bytes[0] === kinds.past ? "past" : undefined;
  if (kind === undefined) return undefined;
  return {
    kind,
    store: bytes.subarray(1, 1 + hashBytes),
    selection: bytes.subarray(1 + hashBytes, sequenceAt),
    streamSequence: bytes.readBigUInt64BE(sequenceAt),
  };
}

/** @throws Failure `failed_precondition` if a place is of another chain, or of the same one as it was loaded before */
export function requireStore({ store }: ResumePlace, now: Uint8Array): void {
  if (store.equals(now)) return;
  const message = "the token is of another chain than the database now holds; open the stream without it";
  throw new Failure("failed_precondition", message, { reason: "CHAIN_CHANGED", voidsPlaces: true });
}

function hash(text: string): Buffer {
  return createHash("sha256").update(text).digest().subarray(0, hashBytes);
}
