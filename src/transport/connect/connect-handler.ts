import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import type { Api } from "../../domain/service.js";
import type { Log } from "../../telemetry/log.js";
import type { RpcLimits } from "../grpc/rpc-limits.js";
import type { Readiness } from "./readiness.js";

/** A request in either HTTP version. */
export type NodeRequest = IncomingMessage | Http2ServerRequest;
/** A response in either HTTP version. */
export type NodeResponse = ServerResponse | Http2ServerResponse;

/** What the handler is made of. */
export interface ConnectHandlerOptions {
  readonly api: Api;
  readonly log: Log;
  readonly readiness: Readiness;
  /** Default: {@link rpcLimits}. */
  readonly limits?: Partial<RpcLimits>;
  /** The client's address where it is not the socket's (behind a proxy). */
  readonly clientAddress?: (request: NodeRequest) => string;
}

/** gRPC, gRPC-Web and Connect for every method of an api, with reflection and health. */
export interface ConnectHandler {
  /**
   * Whether the request is a call: the path (without query) is a method's, or the content type says gRPC, whatever the
   * path. OPTIONS is never a call: preflights are the server's.
   */
  matches(method: string, path: string, headers: IncomingHttpHeaders): boolean;
  /**
   * Serves a request that `matches` took, its errors included; never throws. Headers already set on the response (CORS)
   * stay.
   */
  handle(request: NodeRequest, response: NodeResponse): void;
}

/** Makes the handler for the methods of an api. */
export function createConnectHandler(_options: ConnectHandlerOptions): ConnectHandler {
  return { matches: () => false, handle: (_request, response) => response.end() };
}
