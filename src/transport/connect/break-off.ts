import type { UniversalServerResponse } from "@connectrpc/connect/protocol";
import type { Failure } from "../../domain/failure.js";
import { breakOffCode, cutWhenStalled } from "../grpc/cut-when-stalled.js";
import type { AnyResponse } from "../lane.js";

/** Cuts a response that its reader does not take, with the codes of the gRPC lane. */
export function breakOff(response: AnyResponse, failure: Failure): void {
  if ("stream" in response) response.stream.close(breakOffCode(failure));
  else response.destroy();
}

/** The answer of a unary call, which is cut when it is large and its reader takes nothing of it for `ms`. */
export function breakOffUntaken(
  answer: UniversalServerResponse,
  response: AnyResponse,
  ms: number,
): UniversalServerResponse {
  if (answer.body === undefined || !("stream" in response)) return answer;
  return { ...answer, body: watched(answer.body, (bytes) => cutWhenStalled(response.stream, bytes, ms)) };
}

async function* watched(body: AsyncIterable<Uint8Array>, sent: (bytes: number) => void): AsyncGenerator<Uint8Array> {
  for await (const chunk of body) {
    sent(chunk.length);
    yield chunk;
  }
}
