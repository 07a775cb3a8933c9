import type { Failure } from "../../domain/failure.js";
import type { HeaderFields } from "../common-headers.js";
import { httpStatus } from "../status.js";
import { errorJson } from "./encodings.js";
import { HttpFailure } from "./http-failure.js";
import { breakOff, type HttpResponse } from "./http-message.js";

/** A failure as a whole HTTP response. */
export interface ErrorResponse {
  readonly status: number;
  readonly headers: HeaderFields;
  readonly body: Buffer;
}

/** Status, headers and body of a failure. `Retry-After` is in whole seconds, rounded up. */
export function errorResponse(failure: Failure, common: HeaderFields): ErrorResponse {
  const body = Buffer.from(errorJson(failure));
  const { retryAfterMs } = failure;
  const headers = {
    "content-type": "application/json",
    "content-length": body.length,
    "cache-control": "no-store",
    ...(retryAfterMs === undefined ? {} : { "retry-after": Math.max(1, Math.ceil(retryAfterMs / 1000)) }),
    ...common,
    ...Object.fromEntries(failure.metadata?.headers ?? []),
    ...(failure instanceof HttpFailure ? failure.headers : {}),
  };
  return { status: failure instanceof HttpFailure ? failure.status : httpStatus(failure), headers, body };
}

/** Responds with a failure; `head` without body. If a response has started already, aborts it. */
export function sendError(response: HttpResponse, failure: Failure, common: HeaderFields, head: boolean): void {
  if (response.headersSent) {
    breakOff(response);
    return;
  }
  const { status, headers, body } = errorResponse(failure, common);
  response.writeHead(status, headers);
  if (head) response.end();
  else response.end(body);
}
