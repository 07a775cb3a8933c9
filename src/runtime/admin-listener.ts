import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { MetricsText } from "../telemetry/metrics.js";
import { startListening } from "./listen-error.js";

/** Connections of the admin listener; further ones are closed at once. */
export const adminConnectionsMax = 32;

/** The maximum size of request line and header fields of an admin request. */
export const adminHeaderBytesMax = 8_192;

/** The time for a request to arrive, and for its response to be read. */
export const adminRequestMs = 5_000;

/** The response to an admin request. */
export interface AdminSources {
  /** A word for what it does now. With "ready" or "standby" it is well. */
  readonly readiness: () => string;
  readonly metrics: MetricsText;
}

interface AdminResponse {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string | number>>;
  readonly contentType?: string;
  readonly text: string;
}

/** A listener for health, readiness and metrics: of a loader, or in a primary, independent of load on its public port. */
export class AdminListener {
  readonly #sources: AdminSources;
  readonly #server: Server;

  constructor(sources: AdminSources) {
    this.#sources = sources;
    const limits = {
      maxHeaderSize: adminHeaderBytesMax,
      headersTimeout: adminRequestMs,
      requestTimeout: adminRequestMs,
      connectionsCheckingInterval: 1_000,
    };
    this.#server = createServer(limits, (request, response) => {
      this.#handle(request, response).catch(() => response.destroy());
    });
    this.#server.maxConnections = adminConnectionsMax;
    // Node parses a whole chunk of pipelined requests before the first is answered; it refuses further ones itself.
    this.#server.maxRequestsPerSocket = 1;
    this.#server.timeout = adminRequestMs;
  }

  /** Resolves with the port. @throws Error if the address is unavailable */
  listen(host: string, port: number): Promise<number> {
    return startListening(this.#server, { host, port });
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { status, headers, contentType, text } = await this.#respond(request);
    const body = Buffer.from(text);
    response.writeHead(status, {
      "content-type": contentType ?? "application/json",
      "content-length": body.length,
      "cache-control": "no-store",
      ...headers,
    });
    response.end(request.method === "HEAD" ? undefined : body);
  }

  async #respond({ method, url = "" }: IncomingMessage): Promise<AdminResponse> {
    const { readiness, metrics } = this.#sources;
    const [path = ""] = url.split("?", 1);
    if (!["/healthz", "/readyz", "/metrics"].includes(path)) {
      return { status: 404, text: problem("there are /healthz, /readyz and /metrics here") };
    }
    if (method !== "GET" && method !== "HEAD") {
      return { status: 405, headers: { allow: "GET, HEAD" }, text: problem("only GET and HEAD work here") };
    }
    if (path === "/metrics") return { status: 200, contentType: metrics.contentType, text: await metrics.metrics() };
    const state = path === "/healthz" ? "alive" : readiness();
    const isWell = ["alive", "ready", "standby"].includes(state);
    const headers: AdminResponse["headers"] = isWell ? {} : { "retry-after": 1 };
    return { status: isWell ? 200 : 503, headers, text: JSON.stringify({ status: state }) };
  }
}

function problem(message: string): string {
  return JSON.stringify({ message });
}
