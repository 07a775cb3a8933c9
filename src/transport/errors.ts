import { toUSVString } from "node:util";
import { toJsonString } from "@bufbuild/protobuf";
import { encodeBinaryHeader } from "@connectrpc/connect";
import { codeToHttpStatus } from "@connectrpc/connect/protocol-connect";
import { StatusSchema } from "../../gen/google/rpc/status_pb.js";
import { Failure, type FailureCode, type FailureParts, repeated } from "../domain/failure.js";
import { jsonWriteOptions } from "../encoding/json-encoder.js";
import { grpcCode, toStatus } from "../encoding/status.js";
import type { HeaderFields } from "./common-headers.js";

/** Failures of refused requests are often the same object, so their JSON is kept. */
const errorTexts = new WeakMap<Failure, string>();

/** A failure as the JSON object `{code, message, details}`. */
export function errorJson(failure: Failure): string {
  let text = errorTexts.get(failure);
  if (text === undefined) {
    text = toJsonString(StatusSchema, toStatus(failure), jsonWriteOptions);
    errorTexts.set(failure, text);
  }
  return text;
}

/**
 * A violation of the protocol's framing. The client gets a status and a message without details, because the API is not
 * involved. Texts and codes are those of the Connect library.
 */
export function protocolFailure(
  code: FailureCode,
  message: string,
  parts: Pick<FailureParts, "metadata"> = {},
): Failure {
  return new Failure(code, message, { reason: "", details: [], ...parts });
}

/** A failure with a more specific HTTP status than that of its code, or with additional headers. */
export class HttpFailure extends Failure {
  readonly status: number;
  readonly headers: HeaderFields;

  constructor(status: number, code: FailureCode, reason: string, message: string, headers: HeaderFields = {}) {
    super(code, message, { reason });
    this.status = status;
    this.headers = headers;
  }
}

/** A failure as a whole HTTP response: its own headers only. `Retry-After` is in whole seconds, rounded up. */
export function errorResponse(
  failure: Failure,
  body: Uint8Array = Buffer.from(errorJson(failure)),
): { status: number; headers: HeaderFields; body: Uint8Array } {
  const { retryAfterMs } = failure;
  const headers = {
    "content-type": "application/json",
    "content-length": body.length,
    "cache-control": "no-store",
    "retry-after": retryAfterMs === undefined ? undefined : Math.max(1, Math.ceil(retryAfterMs / 1000)),
    ...Object.fromEntries(failure.metadata?.headers ?? []),
    ...(failure instanceof HttpFailure ? failure.headers : {}),
  };
  return {
    status: failure instanceof HttpFailure ? failure.status : codeToHttpStatus(grpcCode(failure)),
    headers,
    body,
  };
}

/** The methods that every path of the HTTP API supports. */
export const allowedMethods = "GET, HEAD, OPTIONS";

/** 404 for an unknown path. */
export function unknownPath(path: string): Failure {
  return new Failure("not_found", `nothing is served at ${repeated(path)}`, { reason: "UNKNOWN_PATH" });
}

/** 405 with `Allow`. */
export function wrongMethod(method: string, allow = allowedMethods): HttpFailure {
  const message = `${repeated(method)} is not allowed here; use one of ${allow}`;
  return new HttpFailure(405, "unimplemented", "METHOD_NOT_ALLOWED", message, { allow });
}

/** 414. */
export function urlTooLong(lengthMax: number): HttpFailure {
  return new HttpFailure(414, "invalid_argument", "URL_TOO_LONG", `the URL is longer than ${lengthMax} characters`);
}

/** The longest delay of Node's timers, in milliseconds; a longer one would fire at once. */
export const timerMsMax = 2 ** 31 - 1;

const deadlineText = "the deadline of the call passed before its response was complete";

/** The failure of a call that took longer than the server's limit, in every protocol. */
export function deadlineExceeded(): Failure {
  return new Failure("deadline_exceeded", deadlineText, { reason: "DEADLINE_EXCEEDED" });
}

/**
 * The failure of a call whose client's deadline has passed. It has no details, because the client's library watches the
 * same deadline and reports it without them.
 */
export function clientDeadlineExceeded(): Failure {
  return new Failure("deadline_exceeded", deadlineText, { reason: "DEADLINE_EXCEEDED", details: [] });
}

/** The failure of a request that arrived too slowly, in every protocol except HTTP/1.1's own. */
export function requestTooSlow(limitMs: number): Failure {
  const message = `the request did not arrive whole within ${limitMs} ms`;
  return new HttpFailure(408, "deadline_exceeded", "REQUEST_TOO_SLOW", message);
}

/**
 * The reason when a call's signal is aborted because its client left. Nobody reads it, so that all calls share it:
 * capturing its stack would be the dearest step of a cancelled call.
 */
export const clientLeft = new Failure("cancelled", "the client left", { reason: "CLIENT_LEFT" });

/** Trailers of a successful call. */
export const okTrailers: Readonly<Record<string, string>> = Object.freeze({ "grpc-status": "0" });

/** Characters that HTTP header values may not contain, the percent sign, and spaces at the ends, which HTTP/2 forbids. */
const unsafe = /[^\x20-\x24\x26-\x7e]+|^ +| +$/g;

/**
 * Percent-encodes a `grpc-message`: UTF-8 bytes outside printable ASCII, `%`, and spaces at the ends (RFC 9113, 8.2.1).
 * https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md, "Percent-Encoded".
 */
export function percentEncode(message: string): string {
  return toUSVString(message).replace(unsafe, encodeURIComponent);
}

/** The trailers of a failed call; also the headers of a response that consists of an error. */
export function errorTrailers(error: Failure): Record<string, string> {
  const status = toStatus(error);
  return {
    "grpc-status": String(status.code),
    "grpc-message": percentEncode(status.message),
    ...(status.details.length === 0 ? {} : { "grpc-status-details-bin": encodeBinaryHeader(status, StatusSchema) }),
  };
}
