import type { MetricsText } from "../../telemetry/metrics.js";
import type { HeaderFields } from "../common-headers.js";
import type { Readiness } from "../handler.js";
import type { HttpResponse } from "./http-message.js";

/** What the operational endpoints report. */
export interface OperationsOptions {
  /** Undefined: there is no `/metrics`. */
  readonly metrics: MetricsText | undefined;
  readonly readiness: () => Readiness;
}

/**
 * The endpoints for operators: `/healthz` (200 while the process runs), `/readyz` (200 when ready, 503 while it loads
 * or drains) and `/metrics` (Prometheus text). Always at the root, regardless of the base path.
 */
export class Operations {
  readonly #options: OperationsOptions;

  constructor(options: OperationsOptions) {
    this.#options = options;
  }

  matches(path: string): boolean {
    return path === "/healthz" || path === "/readyz" || (path === "/metrics" && this.#options.metrics !== undefined);
  }

  /** `head`: without a body. */
  async handle(path: string, response: HttpResponse, common: HeaderFields, head: boolean): Promise<void> {
    const { metrics, readiness } = this.#options;
    if (path === "/metrics" && metrics !== undefined) {
      const text = await metrics.metrics();
      send(response, 200, { "content-type": metrics.contentType, ...common }, text, head);
      return;
    }
    const state = path === "/healthz" ? "alive" : readiness();
    const status = state === "alive" || state === "ready" ? 200 : 503;
    const retry: HeaderFields = status === 503 ? { "retry-after": 1 } : {};
    const headers = { "content-type": "application/json", ...retry, ...common };
    send(response, status, headers, JSON.stringify({ status: state }), head);
  }
}

function send(response: HttpResponse, status: number, headers: HeaderFields, text: string, head: boolean): void {
  const body = Buffer.from(text);
  response.writeHead(status, { "content-length": body.length, "cache-control": "no-store", ...headers });
  if (head) response.end();
  else response.end(body);
}
