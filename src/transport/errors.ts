import { randomUUID } from "node:crypto";
import { toUSVString } from "node:util";
import { create, type MessageShape, toJsonString } from "@bufbuild/protobuf";
import { type Any, anyPack } from "@bufbuild/protobuf/wkt";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "../../gen/google/rpc/status_pb.js";
import { Failure, type FailureCode, repeated } from "../domain/failure.js";
import type { Metadata } from "../domain/metadata.js";
import { shortened } from "../domain/printable.js";
import { jsonWriteOptions } from "../encoding/json-encoder.js";
import type { Log } from "../telemetry/log.js";
import type { HeaderFields } from "./common-headers.js";

/** The domain of the reasons in `google.rpc.ErrorInfo`. */
export const errorDomain = "marketd";

/** Failure codes as gRPC numbers and HTTP statuses: the only place where they are mapped. */
const wire: Record<FailureCode, { readonly grpc: number; readonly http: number }> = {
  cancelled: { grpc: 1, http: 499 },
  unknown: { grpc: 2, http: 500 },
  invalid_argument: { grpc: 3, http: 400 },
  deadline_exceeded: { grpc: 4, http: 504 },
  not_found: { grpc: 5, http: 404 },
  already_exists: { grpc: 6, http: 409 },
  permission_denied: { grpc: 7, http: 403 },
  resource_exhausted: { grpc: 8, http: 429 },
  failed_precondition: { grpc: 9, http: 400 },
  aborted: { grpc: 10, http: 409 },
  out_of_range: { grpc: 11, http: 400 },
  unimplemented: { grpc: 12, http: 501 },
  internal: { grpc: 13, http: 500 },
  unavailable: { grpc: 14, http: 503 },
  data_loss: { grpc: 15, http: 500 },
  unauthenticated: { grpc: 16, http: 401 },
};

/** The gRPC status number of a failure. */
export function grpcCode(failure: Pick<Failure, "code">): number {
  return wire[failure.code].grpc;
}

/** The HTTP status of a failure. */
export function httpStatus(failure: Failure): number {
  return wire[failure.code].http;
}

/**
 * The longest error text, in characters; longer ones are cut. Errors repeat input, and gRPC sends them in trailers, of
 * which many clients accept only 8 KiB.
 */
export const errorTextLengthMax = 512;

/** The maximum number of field violations in an error. */
export const violationsMax = 8;

/** A text that every protocol can send: cut to the limit, and well-formed Unicode. */
function sendable(text: string): string {
  return toUSVString(shortened(text, errorTextLengthMax));
}

/** The `google.rpc.Status` of a failure, which every protocol carries. */
export function toStatus(failure: Failure): MessageShape<typeof StatusSchema> {
  const details = failure.details === undefined ? detailsOf(failure) : [...failure.details];
  return create(StatusSchema, { code: grpcCode(failure), message: sendable(failure.message), details });
}

function detailsOf(failure: Failure): Any[] {
  const { reason, reasonMetadata } = failure;
  const info = create(ErrorInfoSchema, { reason, domain: errorDomain, metadata: { ...reasonMetadata } });
  const details = [anyPack(ErrorInfoSchema, info)];
  if (failure.violations.length > 0) {
    const fieldViolations = failure.violations.slice(0, violationsMax).map(({ field, description }) => {
      return { field: sendable(field), description: sendable(description) };
    });
    details.unshift(anyPack(BadRequestSchema, create(BadRequestSchema, { fieldViolations })));
  }
  if (failure.retryAfterMs !== undefined) {
    const retryDelay = {
      seconds: BigInt(Math.floor(failure.retryAfterMs / 1000)),
      nanos: (failure.retryAfterMs % 1000) * 1_000_000,
    };
    details.push(anyPack(RetryInfoSchema, create(RetryInfoSchema, { retryDelay })));
  }
  return details;
}

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
 * Converts a thrown error to one that a client may see. A Failure is returned unchanged. Anything else is logged under
 * an id and becomes INTERNAL with that id.
 */
export function toFailure(thrown: unknown, log: Log): Failure {
  if (thrown instanceof Failure) return thrown;
  if (thrown instanceof ProtocolError) return new Failure(thrown.code, thrown.message, { reason: "", details: [] });
  const id = randomUUID();
  log.error({ err: thrown, id }, "request failed");
  return new Failure("internal", `internal error; report it with id ${id}`, { reason: "INTERNAL", cause: thrown });
}

/**
 * A violation of the protocol's framing. The client gets a status and a message without details, because the API is not
 * involved. Texts and codes are those of the Connect library.
 */
export class ProtocolError extends Error {
  readonly code: FailureCode;
  readonly metadata: Metadata | undefined;

  constructor(code: FailureCode, message: string, metadata?: Metadata) {
    super(message);
    this.name = "ProtocolError";
    this.code = code;
    this.metadata = metadata;
  }
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

/** The methods that every path of the HTTP API supports. */
export const allowedMethods = "GET, HEAD, OPTIONS";

/** 404 for an unknown path. */
export function unknownPath(path: string): Failure {
  return new Failure("not_found", `nothing is served at ${repeated(path)}`, { reason: "UNKNOWN_PATH" });
}

/** 405 with `Allow`. */
export function wrongMethod(method: string): HttpFailure {
  const message = `${repeated(method)} is not allowed here; use one of ${allowedMethods}`;
  return new HttpFailure(405, "unimplemented", "METHOD_NOT_ALLOWED", message, { allow: allowedMethods });
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

/** The reason when a call's signal is aborted because its client left. Nobody reads it. */
export function clientLeft(): Failure {
  return new Failure("cancelled", "the client left", { reason: "CLIENT_LEFT" });
}
