import type { Writable } from "node:stream";
import type { Failure } from "../../domain/failure.js";
import type { Log } from "../../telemetry/log.js";
import type { HeaderFields } from "../common-headers.js";
import { toFailure } from "../status.js";
import { sendError } from "./error-response.js";
import type { HttpRequest, HttpResponse } from "./http-message.js";

/** A request to the HTTP API, and its response. */
export interface Exchange {
  readonly request: HttpRequest;
  readonly response: HttpResponse & Writable;
  /** The headers of every response. */
  readonly common: HeaderFields;
  /** Whether the method is HEAD: headers as for GET, no body. */
  readonly head: boolean;
}

/** Responds with a thrown error, and returns it as a failure. */
export function refuse(exchange: Exchange, thrown: unknown, log: Log): Failure {
  const failure = toFailure(thrown, log);
  sendError(exchange.response, failure, exchange.common, exchange.head);
  return failure;
}
