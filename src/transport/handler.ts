import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import type { Api } from "../domain/service.js";
import type { Log } from "../telemetry/log.js";
import type { ClientAddresses } from "./client-addresses.js";
import type { TransportLimits } from "./limits.js";
import type { RequestMetrics } from "./request-metrics.js";

/** Whether the process can answer. */
export type Readiness = "ready" | "loading" | "draining";

/** A request of either HTTP version. */
export type AnyRequest = IncomingMessage | Http2ServerRequest;

/** A response of either HTTP version. */
export type AnyResponse = ServerResponse | Http2ServerResponse;

/** What the handlers of every protocol are made from. */
export interface HandlerOptions {
  /** Already guarded: its streams are counted, limited, watched and drained, whichever protocol opens them. */
  readonly api: Api;
  readonly log: Log;
  readonly limits: TransportLimits;
  readonly requests: RequestMetrics;
  readonly readiness: () => Readiness;
  readonly clients: ClientAddresses;
}
