import type { Transform } from "node:stream";
import { promisify } from "node:util";
import {
  type BrotliOptions,
  brotliCompress,
  brotliCompressSync,
  brotliDecompressSync,
  constants,
  createBrotliCompress,
  createGzip,
  gunzipSync,
  gzip,
  gzipSync,
  type ZlibOptions,
} from "node:zlib";
import Negotiator from "negotiator";
import type { CompressedBytes } from "../../domain/encoded-response.js";

/** Codings of bodies and messages, in order of the server's preference. */
export const contentCodings = ["br", "gzip"] as const;

/** One of {@link contentCodings}. */
export type ContentCoding = (typeof contentCodings)[number];

/** Smaller bodies are not compressed: they fit one packet anyway. */
export const compressedBytesMin = 1_024;

/** Larger bodies are compressed on another thread. */
export const compressedInlineBytesMax = 65_536;

/** In order of the server's preference; the client's q values take precedence. */
const offered = [...contentCodings, "identity"] as const;

const brotliOptions: BrotliOptions = { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } };
const gzipOptions: ZlibOptions = { level: 6 };

/**
 * A part of negotiator's interface that its types lack: the server's order among codings that the client ranks equally.
 */
interface EncodingNegotiator {
  encoding(available: readonly string[], options: { readonly preferred: readonly string[] }): string | undefined;
}

/**
 * A preference that is longer is as if it were absent: reading one takes time for each of its parts. Browsers send some
 * hundred characters.
 */
export const preferenceLengthMax = 1_024;

const remembered = new Map<string, ContentCoding | undefined>();
const rememberedMax = 256;

/**
 * The coding for an `Accept-Encoding` value. Undefined: no compression, even if the client forbids that; there is no
 * 406.
 */
export function chooseCoding(acceptEncoding: string | undefined): ContentCoding | undefined {
  if (acceptEncoding === undefined || acceptEncoding.length > preferenceLengthMax) return undefined;
  if (remembered.has(acceptEncoding)) return remembered.get(acceptEncoding);
  const negotiator: EncodingNegotiator = new Negotiator({ headers: { "accept-encoding": acceptEncoding } });
  const chosen = negotiator.encoding([...offered], { preferred: offered });
  const coding = chosen === "br" || chosen === "gzip" ? chosen : undefined;
  if (remembered.size >= rememberedMax) remembered.clear();
  remembered.set(acceptEncoding, coding);
  return coding;
}

const brotliAsync = promisify<Uint8Array, BrotliOptions, Buffer>(brotliCompress);
const gzipAsync = promisify<Uint8Array, ZlibOptions, Buffer>(gzip);

/** Compressed bytes; a promise if the body is large, because compression takes about 40 ms per MB. */
export function compress(coding: ContentCoding, body: Uint8Array): CompressedBytes {
  if (body.length > compressedInlineBytesMax) {
    return coding === "br" ? brotliAsync(body, brotliOptions) : gzipAsync(body, gzipOptions);
  }
  return coding === "br" ? brotliCompressSync(body, brotliOptions) : gzipSync(body, gzipOptions);
}

/**
 * The decompressed bytes; empty input gives empty output.
 * @throws RangeError if they exceed `bytesMax`, Error if the input is malformed
 */
export function decompress(coding: ContentCoding, body: Buffer, bytesMax: number): Buffer {
  if (body.length === 0) return body;
  const options = { maxOutputLength: bytesMax };
  return coding === "br" ? brotliDecompressSync(body, options) : gunzipSync(body, options);
}

/** A compressor for a body of unknown length. */
export function compressor(coding: ContentCoding): Transform {
  return coding === "br" ? createBrotliCompress(brotliOptions) : createGzip(gzipOptions);
}
