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

/** How bodies and messages can be compressed, ours in order of preference. */
export const contentCodings = ["br", "gzip"] as const;

/** One of {@link contentCodings}. */
export type ContentCoding = (typeof contentCodings)[number];

/** Smaller bodies are sent as they are: a packet is a packet. */
export const compressedBytesMin = 1_024;

/** Larger bodies are compressed outside of the event loop. */
export const compressedInlineBytesMax = 65_536;

/** Ours in order of preference; the client's q values go first. */
const offered = [...contentCodings, "identity"] as const;

const brotliOptions: BrotliOptions = { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } };
const gzipOptions: ZlibOptions = { level: 6 };

/** The part of negotiator's interface that its types lack: what we prefer among what the client likes equally. */
interface EncodingNegotiator {
  encoding(available: readonly string[], options: { readonly preferred: readonly string[] }): string | undefined;
}

const remembered = new Map<string, ContentCoding | undefined>();
const rememberedMax = 256;

/** The coding for an `Accept-Encoding` value; undefined: none (also where the client forbids that: never 406). */
export function chooseCoding(acceptEncoding: string | undefined): ContentCoding | undefined {
  if (acceptEncoding === undefined) return undefined;
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

/** Compressed bytes. It takes about 40 ms for each MB. */
export function compressInline(coding: ContentCoding, body: Uint8Array): Uint8Array {
  return coding === "br" ? brotliCompressSync(body, brotliOptions) : gzipSync(body, gzipOptions);
}

/** Compressed bytes; a promise where the body is large. */
export function compress(coding: ContentCoding, body: Uint8Array): Uint8Array | Promise<Uint8Array> {
  if (body.length <= compressedInlineBytesMax) return compressInline(coding, body);
  return coding === "br" ? brotliAsync(body, brotliOptions) : gzipAsync(body, gzipOptions);
}

/**
 * The bytes that were compressed; none are none.
 * @throws RangeError when they are more than `bytesMax`, Error when they are malformed
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
