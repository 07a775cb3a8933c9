import type { IncomingHttpHeaders } from "node:http";
import type { HeaderFields } from "../common-headers.js";

/** What the HTTP lane needs of a request; Node's objects of both HTTP versions have it. */
export interface HttpRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly httpVersionMajor: number;
  readonly socket: { readonly remoteAddress?: string | undefined };
}

/** What the HTTP lane needs of a response; Node's objects of both HTTP versions have it. */
export interface HttpResponse {
  readonly headersSent: boolean;
  readonly writableEnded: boolean;
  writeHead(status: number, headers: HeaderFields): unknown;
  /** HTTP/2 responses send their headers as they are written. */
  flushHeaders?(): void;
  write(chunk: Uint8Array): boolean;
  addTrailers(trailers: Record<string, string>): void;
  end(chunk?: Uint8Array | string): unknown;
  destroy(error?: Error): unknown;
  on(event: "drain" | "close", listener: () => void): unknown;
  once(event: "drain" | "close", listener: () => void): unknown;
}
