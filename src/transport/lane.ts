import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type {
  Http2ServerRequest,
  Http2ServerResponse,
  IncomingHttpHeaders as IncomingHttp2Headers,
  ServerHttp2Stream,
} from "node:http2";
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

/** What every lane is made from. */
export interface LaneOptions {
  /** Already guarded: its streams are counted, limited, watched and drained, whichever lane opens them. */
  readonly api: Api;
  readonly log: Log;
  readonly limits: TransportLimits;
  readonly requests: RequestMetrics;
  readonly readiness: () => Readiness;
  readonly clients: ClientAddresses;
}

/** Serves what it matches among the requests of both HTTP versions. CORS headers are on the response already. */
export interface RequestLane {
  /** `path` has neither base path nor query; `headers` have lower-case names. */
  matches(method: string, path: string, headers: IncomingHttpHeaders): boolean;
  /** The value of `Allow` for a path that is this lane's alone; undefined: it is not. */
  allowed(path: string): string | undefined;
  handle(request: AnyRequest, response: AnyResponse): void;
}

/** Serves HTTP/2 streams without Node's request and response objects. */
export interface Http2StreamLane {
  accepts(headers: IncomingHttp2Headers): boolean;
  handle(stream: ServerHttp2Stream, headers: IncomingHttp2Headers): void;
}
