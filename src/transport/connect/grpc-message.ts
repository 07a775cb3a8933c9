import type { UniversalServerResponse } from "@connectrpc/connect/protocol";
import { percentEncode } from "../grpc/grpc-status.js";

const messageTrailer = "grpc-message";

/**
 * Connect percent-encodes more of a `grpc-message` than gRPC asks for, and some clients decode only what gRPC asks for:
 * theirs would read `yet%3B ask again`. Gives the answer whose trailers are encoded as the gRPC lane's.
 */
export function withPlainGrpcMessage(answer: UniversalServerResponse): UniversalServerResponse {
  const { body, trailer } = answer;
  if (trailer === undefined || body === undefined) return answer;
  return { ...answer, body: mendAtEnd(body, trailer) };
}

/** The trailers are known when the body has ended, and sent after it. */
async function* mendAtEnd(body: AsyncIterable<Uint8Array>, trailer: Headers): AsyncGenerator<Uint8Array> {
  yield* body;
  const message = trailer.get(messageTrailer);
  if (message !== null) trailer.set(messageTrailer, percentEncode(decodeURIComponent(message)));
}
