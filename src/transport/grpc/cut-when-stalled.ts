import { constants, type Http2Stream } from "node:http2";
import type { Failure } from "../../domain/failure.js";

/** Smaller answers fit a peer's first flow-control window: they are gone once they are written. */
export const windowBytes = 65_535;

/** Resets a stream of which the peer takes nothing for `ms`, when what it has yet to take is worth watching. */
export function cutWhenStalled(stream: Http2Stream, answerBytes: number, ms: number): void {
  if (answerBytes > windowBytes) stream.setTimeout(ms, () => stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM));
}

/** What an HTTP/2 response that its reader does not take is reset with: a reset without an error would go unnoticed. */
export function breakOffCode(failure: Failure): number {
  return failure.code === "resource_exhausted" ? constants.NGHTTP2_ENHANCE_YOUR_CALM : constants.NGHTTP2_CANCEL;
}
