import { Code, ConnectError } from "@connectrpc/connect";
import type { Compression } from "@connectrpc/connect/protocol";
import { compressionBrotli, compressionGzip } from "@connectrpc/connect-node";
import { type ContentCoding, compress } from "../http/content-coding.js";
import { isLargeMessage, largeMessageTurn } from "../large-messages.js";

/**
 * Encodings that requests and answers may have, in Connect's terms. Answers are compressed as the HTTP API compresses
 * its own: Connect's brotli has the slowest quality.
 */
export const compressions: readonly Compression[] = [ours("br", compressionBrotli), ours("gzip", compressionGzip)];

function ours(coding: ContentCoding, theirs: Compression): Compression {
  return {
    ...theirs,
    compress: async (bytes) => new Uint8Array(await compress(coding, bytes)),
    decompress: async (bytes, bytesMax) => {
      const message = await theirs.decompress(bytes, bytesMax).catch((thrown) => refuseBytes(coding, thrown));
      if (isLargeMessage(message.length)) await largeMessageTurn();
      return message;
    },
  };
}

/** Connect takes some kinds of malformed bytes, and those that end too early, for an error of its own. */
function refuseBytes(coding: ContentCoding, thrown: unknown): never {
  const error = ConnectError.from(thrown);
  if (error.code !== Code.Internal) throw error;
  throw new ConnectError(
    `the message is not in ${coding}, as announced`,
    Code.InvalidArgument,
    undefined,
    undefined,
    thrown,
  );
}
