import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import type { Api } from "../../domain/service.js";
import type { Log } from "../../telemetry/log.js";
import type { RpcLimits } from "./rpc-limits.js";

/** What the lane is made of. */
export interface GrpcLaneOptions {
  readonly api: Api;
  readonly log: Log;
  /** Default: {@link rpcLimits}. */
  readonly limits?: Partial<RpcLimits>;
  /** The client's address where it is not the socket's (behind a proxy). */
  readonly clientAddress?: (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => string;
}

/** The short way for plain gRPC calls: binary, uncompressed, on the HTTP/2 stream itself. */
export interface GrpcLane {
  /** Whether the lane serves a call with these headers; what it doesn't take, the Connect handler does. */
  accepts(headers: IncomingHttpHeaders): boolean;
  /** Serves a call that `accepts` took. Takes the stream over, its errors included; never throws. */
  handle(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void;
}

/** Makes the lane for the methods of an api. */
export function createGrpcLane(_options: GrpcLaneOptions): GrpcLane {
  return { accepts: () => false, handle: (stream) => stream.close() };
}
