import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import type { Api } from "../domain/service.js";
import type { Log } from "../telemetry/log.js";
import type { ClientAddresses } from "./client-addresses.js";
import type { TransportLimits } from "./limits.js";
import type { RequestMetrics } from "./request-metrics.js";

/** Whether the process accepts requests. */
export type Readiness = "ready" | "loading" | "draining";

/** A request of either HTTP version. */
export type AnyRequest = IncomingMessage | Http2ServerRequest;

/** A response of either HTTP version. */
export type AnyResponse = ServerResponse | Http2ServerResponse;

/** Options of the handlers of every protocol. */
export interface HandlerOptions {
  /** Guarded by {@link StreamGuard}: streams are counted, limited, watched and drained in every protocol. */
  readonly api: Api;
  readonly log: Log;
  readonly limits: TransportLimits;
  readonly requests: RequestMetrics;
  readonly readiness: () => Readiness;
  readonly clients: ClientAddresses;
}
