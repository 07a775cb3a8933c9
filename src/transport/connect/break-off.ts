import { constants, type Http2Stream } from "node:http2";
import type { UniversalServerResponse } from "@connectrpc/connect/protocol";
import type { Failure } from "../../domain/failure.js";
import { countAnswer, piecesOf } from "../connections/unread-answers.js";
import { breakOffCode } from "../grpc/break-off-code.js";
import type { AnyResponse } from "../lane.js";

/** Cuts a response that its reader does not take, with the codes of the gRPC lane. */
export function breakOff(response: AnyResponse, failure: Failure): void {
  if ("stream" in response) response.stream.close(breakOffCode(failure));
  else response.destroy();
}

/** The answer of a unary call, in pieces of which each is written when its reader has taken the last. */
export function inPieces(answer: UniversalServerResponse, response: AnyResponse): UniversalServerResponse {
  if (answer.body === undefined || !("stream" in response)) return answer;
  return { ...answer, body: cut(answer.body, response.stream) };
}

async function* cut(body: AsyncIterable<Uint8Array>, stream: Http2Stream): AsyncGenerator<Uint8Array> {
  for await (const chunk of body) {
    try {
      countAnswer(stream, chunk.length);
    } catch (thrown) {
      // The status has left with the headers. gRPC clients read this reset as RESOURCE_EXHAUSTED.
      stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
      throw thrown;
    }
    yield* piecesOf(stream, chunk);
  }
}
