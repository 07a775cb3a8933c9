import { Failure, type FailureCode } from "../../domain/failure.js";
import type { HeaderFields } from "../common-headers.js";

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

/** The methods that every path of the HTTP API supports. */
export const allowedMethods = "GET, HEAD, OPTIONS";

/** 404 for an unknown path. */
export function unknownPath(path: string): Failure {
  const shown = path.length <= 200 ? path : `${path.slice(0, 200)}…`;
  return new Failure("not_found", `nothing is served at ${shown}`, { reason: "UNKNOWN_PATH" });
}

/** 405 with `Allow`. */
export function wrongMethod(method: string): HttpFailure {
  const message = `${method} is not allowed here; use one of ${allowedMethods}`;
  return new HttpFailure(405, "unimplemented", "METHOD_NOT_ALLOWED", message, { allow: allowedMethods });
}

/** 414. */
export function urlTooLong(lengthMax: number): HttpFailure {
  return new HttpFailure(414, "invalid_argument", "URL_TOO_LONG", `the URL is longer than ${lengthMax} characters`);
}
