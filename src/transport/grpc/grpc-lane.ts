import type { Http2Session, IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import type { Method } from "../../domain/service.js";
import type { DataHeaders } from "../common-headers.js";
import type { Http2StreamLane, LaneOptions } from "../lane.js";
import { AnswerHeaders } from "./answer-headers.js";
import { parseGrpcTimeout } from "./deadline.js";
import { GrpcWire } from "./grpc-wire.js";
import { ProtocolError } from "./protocol-error.js";
import { rememberingRequests } from "./request-memo.js";
import { decodeBinary, RpcCall, type ServedMethod } from "./rpc-call.js";

/** What the lane is made from. */
export interface GrpcLaneOptions extends LaneOptions {
  /** Sent as metadata with every answer. */
  readonly data: DataHeaders;
}

/**
 * The short way for plain gRPC calls: binary, uncompressed, on the HTTP/2 stream itself. What it does not accept, the
 * Connect handler serves with the same outcome; a gRPC client cannot tell them apart but by their speed.
 */
export function createGrpcLane(options: GrpcLaneOptions): Http2StreamLane {
  const methods = new Map<string, ServedMethod>();
  for (const method of options.api) {
    const cells = options.requests.cells(method, "grpc");
    methods.set(methodPath(method), { method, decode: rememberingRequests(decodeBinary), cells, options });
  }
  const answerHeaders = new AnswerHeaders(options.data);
  const addressOf = addressBook();
  return {
    accepts: (headers) => isPlainGrpc(headers) && methods.has(headers[":path"] ?? ""),
    handle: (stream, headers) => {
      const served = methods.get(headers[":path"] ?? "");
      if (served === undefined) return;
      const wire = new GrpcWire(stream, answerHeaders);
      const clientAddress = options.clients.of(addressOf(stream.session), headers["x-forwarded-for"]);
      serve(served, wire, stream, headers, clientAddress);
    },
  };
}

/** The path of a method in gRPC, gRPC-Web and Connect. */
export function methodPath(method: Method): string {
  return `/${method.desc.parent.typeName}/${method.desc.name}`;
}

function isPlainGrpc(headers: IncomingHttpHeaders): boolean {
  const type = headers["content-type"];
  const encoding = headers["grpc-encoding"];
  return (
    (type === "application/grpc" || type === "application/grpc+proto") &&
    headers[":method"] === "POST" &&
    headers["te"] === "trailers" &&
    (encoding === undefined || encoding === "identity")
  );
}

function serve(
  served: ServedMethod,
  wire: GrpcWire,
  stream: CallStream,
  headers: IncomingHttpHeaders,
  clientAddress: string,
): void {
  // A reset stream also emits its error; it has been dealt with at "close".
  stream.on("error", ignore);
  const timeout = headers["grpc-timeout"];
  const timeoutMs = typeof timeout === "string" ? parseGrpcTimeout(timeout) : undefined;
  const call = new RpcCall(served, wire, clientAddress, headers, timeoutMs);
  stream[servedCall] = call;
  stream.on("data", tellData);
  stream.on("end", tellEnd);
  stream.on("close", tellClose);
  if (served.method.kind === "server_streaming") stream.on("drain", tellDrain);
  if (timeout !== undefined && timeoutMs === undefined) {
    call.refuse(new ProtocolError("invalid_argument", `protocol error: invalid grpc timeout value: ${timeout}`));
  }
}

/** Where a stream keeps its call: listeners that all streams share cost less than closures for each. */
const servedCall = Symbol("the call that a stream carries");

interface CallStream extends ServerHttp2Stream {
  [servedCall]?: RpcCall;
}

function tellData(this: CallStream, chunk: Buffer): void {
  this[servedCall]?.data(chunk);
}

function tellEnd(this: CallStream): void {
  this[servedCall]?.end();
}

function tellClose(this: CallStream): void {
  this[servedCall]?.left();
}

function tellDrain(this: CallStream): void {
  this[servedCall]?.drained();
}

function ignore(): void {}

/** Remembers each connection's address: asking the session's socket for it costs more than the rest of a call. */
function addressBook(): (session: Http2Session | undefined) => string {
  const known = new WeakMap<Http2Session, string>();
  return (session) => {
    if (session === undefined || session.destroyed) return "";
    let address = known.get(session);
    if (address === undefined) {
      address = session.socket.remoteAddress ?? "";
      known.set(session, address);
    }
    return address;
  };
}
