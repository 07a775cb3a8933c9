import { type IncomingHttpHeaders, ServerResponse } from "node:http";
import { constants, type Http2Stream } from "node:http2";
import type { Socket } from "node:net";
import type { HeaderFields } from "../common-headers.js";

/** The parts of a request that the HTTP API uses; Node's objects of both HTTP versions have them. */
export interface HttpRequest {
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

/** Aborts a response, so that the client can tell that it is incomplete. */
export function breakOff(response: HttpResponse): void {
  if (response.stream === undefined) response.destroy();
  else response.stream.close(constants.NGHTTP2_INTERNAL_ERROR);
}
