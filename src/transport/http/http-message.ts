import { type IncomingHttpHeaders, ServerResponse } from "node:http";
import { constants, type Http2Stream } from "node:http2";
import type { Socket } from "node:net";
import type { HeaderFields } from "../common-headers.js";

/** What the HTTP API needs of a request; Node's objects of both HTTP versions have it. */
export interface HttpRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly httpVersionMajor: number;
  readonly socket: { readonly remoteAddress?: string | undefined };
}

/** What the HTTP API needs of a response; Node's objects of both HTTP versions have it. */
export interface HttpResponse {
  readonly headersSent: boolean;
  readonly writableEnded: boolean;
  writeHead(status: number, headers: HeaderFields): unknown;
  /** HTTP/2 responses send their headers as they are written. */
  flushHeaders?(): void;
  write(chunk: Uint8Array, written?: (error?: Error | null) => void): boolean;
  addTrailers(trailers: Record<string, string>): void;
  end(chunk?: Uint8Array | string): unknown;
  destroy(error?: Error): unknown;
  /** An HTTP/2 response's stream, which alone can say that it was broken off. */
  readonly stream?: Http2Stream;
  on(event: "drain" | "close", listener: () => void): unknown;
  once(event: "drain" | "close", listener: () => void): unknown;
}

/** Whether trailers can follow the body: not to a client of HTTP/1.0, which knows no chunks. */
export function canHaveTrailers(response: HttpResponse): boolean {
  return !(response instanceof ServerResponse) || response.useChunkedEncodingByDefault;
}

/**
 * The connection that finished chunks of a response may be written to, once its headers have left: of an HTTP/1.1
 * response whose turn it is on that connection.
 */
export function chunkSocket(response: HttpResponse): Socket | undefined {
  if (!(response instanceof ServerResponse) || !response.useChunkedEncodingByDefault) return undefined;
  return response.socket ?? undefined;
}

/** Breaks a response off, so that the client can tell that it is not whole. */
export function breakOff(response: HttpResponse): void {
  if (response.stream === undefined) response.destroy();
  else response.stream.close(constants.NGHTTP2_INTERNAL_ERROR);
}
