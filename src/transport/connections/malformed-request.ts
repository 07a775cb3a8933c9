import { STATUS_CODES } from "node:http";
import type { Failure } from "../../domain/failure.js";
import type { HeaderFields } from "../common-headers.js";
import { errorResponse } from "../http/error-response.js";
import { HttpFailure } from "../http/http-failure.js";
import type { TransportLimits } from "../limits.js";

/** The failure for input that the HTTP/1.1 parser rejected. */
export function malformedRequest(error: NodeJS.ErrnoException, limits: TransportLimits): HttpFailure {
  if (error.code === "HPE_HEADER_OVERFLOW") {
    const message = `the request line and headers are longer than ${limits.headerBytesMax} bytes`;
    return new HttpFailure(431, "invalid_argument", "HEADERS_TOO_LARGE", message);
  }
  if (error.code === "ERR_HTTP_REQUEST_TIMEOUT") {
    const message = "the request took too long to arrive";
    return new HttpFailure(408, "deadline_exceeded", "REQUEST_TIMEOUT", message);
  }
  return new HttpFailure(400, "invalid_argument", "MALFORMED_REQUEST", "the request is not well-formed HTTP");
}

/** An error response as bytes, for an HTTP/1.1 connection that then ends. */
export function rawErrorResponse(
  failure: Failure,
  common: HeaderFields = { "access-control-allow-origin": "*" },
): Buffer {
  const { status, headers, body } = errorResponse(failure, { connection: "close", ...common });
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${fields.join("")}\r\n`;
  return Buffer.concat([Buffer.from(head, "latin1"), body]);
}
