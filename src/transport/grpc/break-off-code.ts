import { constants } from "node:http2";
import type { Failure } from "../../domain/failure.js";

/** What an HTTP/2 response that its reader does not take is reset with: a reset without an error would go unnoticed. */
export function breakOffCode(failure: Failure): number {
  return failure.code === "resource_exhausted" ? constants.NGHTTP2_ENHANCE_YOUR_CALM : constants.NGHTTP2_CANCEL;
}
