import { type IncomingHttpHeaders, ServerResponse } from "node:http";
import { constants, type Http2Stream } from "node:http2";
import type { Socket } from "node:net";
import type { Writable } from "node:stream";
import type { Failure } from "../../domain/failure.js";
import type { Log } from "../../telemetry/log.js";
import type { HeaderFields } from "../common-headers.js";
import { countResponse, endWithBody } from "../connections/unread-responses.js";
import { errorResponse, toFailure } from "../errors.js";

/** The parts of a request that the HTTP API uses; Node's objects of both HTTP versions have them. */
interface HttpRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly httpVersionMajor: number;
  readonly socket: { readonly remoteAddress?: string | undefined };
}

/** The parts of a response that the HTTP API uses; Node's objects of both HTTP versions have them. */
export interface HttpResponse {
  readonly headersSent: boolean;
  readonly writableEnded: boolean;
  writeHead(status: number, headers: HeaderFields): unknown;
  /** HTTP/2 responses send their headers on the first write. */
  flushHeaders?(): void;
  write(chunk: Uint8Array, written?: (error?: Error | null) => void): boolean;
  addTrailers(trailers: Record<string, string>): void;
  end(chunk?: Uint8Array | string): unknown;
  destroy(error?: Error): unknown;
  /** The stream of an HTTP/2 response, which is needed to abort it. */
  readonly stream?: Http2Stream;
  on(event: "drain" | "close", listener: () => void): unknown;
  once(event: "drain" | "close", listener: () => void): unknown;
}

/** Whether trailers can follow the body. HTTP/1.0 clients do not support chunks. */
export function canHaveTrailers(response: HttpResponse): boolean {
  return !(response instanceof ServerResponse) || response.useChunkedEncodingByDefault;
}

/**
 * The connection to which finished chunks may be written directly, after the headers have left. Only for an HTTP/1.1
 * response whose turn it is.
 */
export function chunkSocket(response: HttpResponse): Socket | undefined {
  if (!(response instanceof ServerResponse) || !response.useChunkedEncodingByDefault) return undefined;
  return response.socket ?? undefined;
}

/**
 * Sends what is written until the running callbacks have ended as one write, over HTTP/1.1. Holds back the socket, not
 * the response: Node 22 and 24 end a response whose chunks it holds back before these chunks.
 */
export function writeTogether(response: HttpResponse): void {
  if (!(response instanceof ServerResponse)) return;
  const { socket } = response;
  socket?.cork();
  process.nextTick(() => socket?.uncork());
}

/** Aborts a response, so that the client can tell that it is incomplete. */
export function breakOff(response: HttpResponse): void {
  if (response.stream === undefined) response.destroy();
  else response.stream.close(constants.NGHTTP2_INTERNAL_ERROR);
}

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

/**
 * Sends a whole response; `head` without body. Over HTTP/2 its bytes count until the peer has taken them.
 * @throws Failure before anything was sent, if its client has too many unread bytes
 */
export function sendWhole(
  response: HttpResponse,
  status: number,
  headers: HeaderFields,
  body: Uint8Array,
  head: boolean,
): void {
  if (response.stream !== undefined && !head) countResponse(response.stream, body.length);
  writeWhole(response, status, headers, body, head);
}

function writeWhole(
  response: HttpResponse,
  status: number,
  headers: HeaderFields,
  body: Uint8Array,
  head: boolean,
): void {
  const { stream } = response;
  response.writeHead(status, headers);
  if (head) response.end();
  else if (stream === undefined) response.end(body);
  else endWithBody(response, stream, body);
}

/** Responds with a failure; `head` without body. If a response has started already, aborts it. */
export function sendError(response: HttpResponse, failure: Failure, common: HeaderFields, head: boolean): void {
  if (response.headersSent) {
    breakOff(response);
    return;
  }
  const { status, headers, body } = errorResponse(failure, common);
  // Not counted: an error is some ten kilobytes at most, and nobody could handle that it is refused.
  writeWhole(response, status, headers, body, head);
}
