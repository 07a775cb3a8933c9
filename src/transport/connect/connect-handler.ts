import type { IncomingHttpHeaders } from "node:http";
import { createRegistry } from "@bufbuild/protobuf";
import { createConnectRouter, createContextValues } from "@connectrpc/connect";
import type { UniversalHandler, UniversalServerRequest } from "@connectrpc/connect/protocol";
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from "@connectrpc/connect-node";
import { Health } from "../../../gen/grpc/health/v1/health_pb.js";
import { anyRegistry, jsonWriteOptions } from "../../encoding/json-encoder.js";
import { parseGrpcTimeout, timerMsMax } from "../grpc/deadline.js";
import { errorTrailers } from "../grpc/grpc-status.js";
import { ProtocolError } from "../grpc/protocol-error.js";
import { chooseCoding, compressedBytesMin } from "../http/content-coding.js";
import type { AnyRequest, AnyResponse, LaneOptions, RequestLane } from "../lane.js";
import { inPieces } from "./break-off.js";
import { checkedBody } from "./checked-body.js";
import { compressions } from "./compression.js";
import { peerKey } from "./connect-context.js";
import { registerMethods } from "./connect-methods.js";
import { withPlainGrpcMessage } from "./grpc-message.js";
import { registerHealth } from "./health.js";
import { receiveInTime } from "./receive-in-time.js";
import { registerReflection } from "./reflection.js";
import { UnaryCalls } from "./unary-calls.js";
import { WebCalls } from "./web-calls.js";

const requestTimeout = 408;
const gatewayTimeout = 504;
const grpcTypePrefix = "application/grpc";

/**
 * gRPC, gRPC-Web and Connect for every method of an api, in both HTTP versions, with reflection and health.
 *
 * Matches when the path is a method's, or when the headers say gRPC or Connect, whatever the path; never OPTIONS:
 * preflights are the server's.
 */
export function createConnectHandler(options: LaneOptions): RequestLane {
  const handlers = universalHandlers(options);
  const webCalls = new WebCalls(options);
  const unaryCalls = new UnaryCalls(options);
  return {
    matches: (method, path, headers) =>
      method !== "OPTIONS" && (handlers.has(path) || isGrpc(headers) || (method === "POST" && isConnect(headers))),
    allowed: (path) => {
      const handler = handlers.get(path);
      return handler === undefined ? undefined : allowedMethods(handler).join(", ");
    },
    handle: (request, response) => {
      const path = pathOf(request);
      if (webCalls.handle(path, request, response) || unaryCalls.handle(path, request, response)) return;
      const handler = handlers.get(path);
      if (handler === undefined) refuseUnknown(request, response);
      else if (!allows(handler, request.method ?? "")) refuseMethod(handler, request, response);
      else serve(handler, request, response, options);
    },
  };
}

function isGrpc(headers: IncomingHttpHeaders): boolean {
  return headers["content-type"]?.startsWith(grpcTypePrefix) ?? false;
}

/** Whether a POST says that it is a Connect call. One of JSON alone does not. */
function isConnect(headers: IncomingHttpHeaders): boolean {
  const type = headers["content-type"] ?? "";
  return headers["connect-protocol-version"] !== undefined || /^application\/(proto$|connect\+)/.test(type);
}

function universalHandlers(options: LaneOptions): ReadonlyMap<string, UniversalHandler> {
  // A message of the API may travel in an Any of another.
  const registry = createRegistry(anyRegistry, ...options.api.map((method) => method.desc.parent.file));
  const router = createConnectRouter({
    acceptCompression: [...compressions],
    compressMinBytes: compressedBytesMin,
    readMaxBytes: options.limits.requestBodyBytesMax,
    jsonOptions: { ...jsonWriteOptions, registry, ignoreUnknownFields: false },
  });
  registerMethods(router, options);
  const services = new Set([...options.api.map((method) => method.desc.parent), Health]);
  registerHealth(router, new Set([...services].map((service) => service.typeName)), options.readiness);
  registerReflection(router, [...services]);
  return new Map(router.handlers.map((handler) => [handler.requestPath, handler]));
}

function pathOf(request: AnyRequest): string {
  const url = request.url ?? "";
  const query = url.indexOf("?");
  return query < 0 ? url : url.slice(0, query);
}

function allows(handler: UniversalHandler, method: string): boolean {
  return handler.allowedMethods.includes(method === "HEAD" ? "GET" : method);
}

function allowedMethods(handler: UniversalHandler): readonly string[] {
  return handler.allowedMethods.includes("GET") ? ["GET", "HEAD", "POST", "OPTIONS"] : ["POST", "OPTIONS"];
}

function acceptedTypes(handler: UniversalHandler): string {
  const connect = isUnary(handler) ? "application/" : "application/connect+";
  const enveloped = ["application/grpc", "application/grpc-web"].flatMap((type) => [
    type,
    `${type}+proto`,
    `${type}+json`,
  ]);
  return [`${connect}json`, `${connect}proto`, ...enveloped].join(", ");
}

function isUnary(handler: UniversalHandler): boolean {
  return handler.method.methodKind === "unary";
}

function serve(handler: UniversalHandler, request: AnyRequest, response: AnyResponse, options: LaneOptions): void {
  const peer = { clientAddress: options.clients.ofRequest(request), requestHeaders: request.headers, response };
  let universal: UniversalServerRequest;
  try {
    universal = universalRequestFromNodeRequest(request, response, undefined, createContextValues().set(peerKey, peer));
  } catch (thrown) {
    options.log.debug({ err: thrown }, "a request without a usable authority");
    sendError(response, 400, "invalid_argument", "the request names no valid authority (Host)");
    return;
  }
  if (universal.method === "HEAD") universal.method = "GET";
  settleEncodings(universal.header, response);
  dropEndlessTimeouts(universal.header);
  const { requestReceiveTimeoutMs, requestBodyBytesMax } = options.limits;
  let late = false;
  const body = receiveInTime(universal.body, requestReceiveTimeoutMs, () => {
    late = true;
  });
  universal.body = checkedBody(body, universal.header, handler.method, requestBodyBytesMax);
  handler(universal)
    .then((answer) => {
      if (answer.status === 415) response.setHeader("accept-post", acceptedTypes(handler));
      const watched = isUnary(handler) ? inPieces(answer, response) : answer;
      // 504 would blame the server for a request that the client did not finish.
      const status = late && answer.status === gatewayTimeout ? requestTimeout : answer.status;
      return universalResponseToNodeResponse(withPlainGrpcMessage({ ...watched, status }), response);
    })
    .catch((thrown: unknown) => {
      options.log.debug({ err: thrown }, "a response could not be written");
      response.destroy();
    });
}

/**
 * Connect takes the first encoding of the client's list that it knows; we take the one that the client likes best. A gRPC
 * answer is compressed when its request was: the list that gRPC clients send says what they can read, not what they want.
 */
function settleEncodings(headers: Headers, response: AnyResponse): void {
  if (headers.get("content-type")?.startsWith(grpcTypePrefix)) {
    const sent = headers.get("grpc-encoding");
    if (sent === null || sent === "identity") headers.delete("grpc-accept-encoding");
    return;
  }
  for (const name of ["accept-encoding", "connect-accept-encoding"]) {
    const accepted = headers.get(name);
    if (accepted !== null) headers.set(name, chooseCoding(accepted) ?? "identity");
  }
  response.appendHeader("vary", "accept-encoding");
}

/** A deadline beyond what timers can wait for would pass at once; it is none. */
function dropEndlessTimeouts(headers: Headers): void {
  const connect = headers.get("connect-timeout-ms");
  if (connect !== null && /^\d{1,10}$/.test(connect) && Number(connect) > timerMsMax)
    headers.delete("connect-timeout-ms");
  const grpc = headers.get("grpc-timeout");
  const grpcMs = grpc === null ? undefined : parseGrpcTimeout(grpc);
  if (grpcMs !== undefined && grpcMs > timerMsMax) headers.delete("grpc-timeout");
}

function refuseUnknown(request: AnyRequest, response: AnyResponse): void {
  const error = new ProtocolError("unimplemented", `no method is served at ${pathOf(request)}`);
  request.resume();
  if (!isGrpc(request.headers)) {
    sendError(response, 404, error.code, error.message);
    return;
  }
  response.setHeader("content-type", request.headers["content-type"] ?? grpcTypePrefix);
  for (const [name, value] of Object.entries(errorTrailers(error))) response.setHeader(name, value);
  response.end();
}

/**
 * 405 with `Allow`. A caller that speaks gRPC or Connect takes the status itself for the error, as its protocol says; a
 * body in JSON would be another error to it.
 */
function refuseMethod(handler: UniversalHandler, request: AnyRequest, response: AnyResponse): void {
  const allowed = allowedMethods(handler).join(", ");
  const message = `${request.method} is not allowed here; use one of ${allowed}`;
  request.resume();
  response.setHeader("allow", allowed);
  if (!isGrpc(request.headers) && !isConnect(request.headers)) {
    sendError(response, 405, "unimplemented", message);
    return;
  }
  response.statusCode = 405;
  response.setHeader("content-type", "text/plain");
  response.end(message);
}

/** An error in Connect's form. */
function sendError(response: AnyResponse, status: number, code: string, message: string): void {
  response.statusCode = status;
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ code, message }));
}
