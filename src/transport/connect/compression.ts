import { promisify } from "node:util";
import { brotliCompress, gzip, constants as zlib } from "node:zlib";
import type { Compression } from "@connectrpc/connect/protocol";
import { compressionBrotli, compressionGzip } from "@connectrpc/connect-node";

/** Answers below this many bytes go uncompressed: it would cost more than it saves. */
export const compressBytesMin = 1024;

/** Brotli's quality; its own default, 11, takes a hundred times as long for a few percent. */
export const brotliQuality = 4;

/** zlib's own default. */
export const gzipLevel = 6;

const gzipAsync = promisify(gzip);
const brotliAsync = promisify(brotliCompress);

/** Encodings that requests and answers may have, the preferred one first. */
export const compressions: readonly Compression[] = [
  {
    ...compressionBrotli,
    compress: async (bytes) => {
      const params = { [zlib.BROTLI_PARAM_QUALITY]: brotliQuality, [zlib.BROTLI_PARAM_SIZE_HINT]: bytes.length };
      return new Uint8Array(await brotliAsync(bytes, { params }));
    },
  },
  { ...compressionGzip, compress: async (bytes) => new Uint8Array(await gzipAsync(bytes, { level: gzipLevel })) },
];

/**
 * The encoding that an `Accept-Encoding` header likes best among ours and `identity`: by quality, then by our preference.
 * https://www.rfc-editor.org/rfc/rfc9110#field.accept-encoding
 */
export function preferredEncoding(accept: string): string {
  const qualities = new Map<string, number>();
  for (const part of accept.split(",")) {
    const [name = "", ...parameters] = part.split(";").map((text) => text.trim().toLowerCase());
    const quality = parameters.find((parameter) => parameter.startsWith("q="));
    if (name !== "") qualities.set(name, quality === undefined ? 1 : Number(quality.slice(2)) || 0);
  }
  let best = "identity";
  let bestQuality = qualities.get("identity") ?? 0;
  for (const { name } of [...compressions].reverse()) {
    const quality = qualities.get(name) ?? qualities.get("*") ?? 0;
    if (quality > 0 && quality >= bestQuality) {
      best = name;
      bestQuality = quality;
    }
  }
  return best;
}
