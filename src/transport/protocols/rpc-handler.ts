import type { IncomingHttpHeaders } from "node:http";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import * as connectProtocol from "@connectrpc/connect/protocol-connect";
import * as grpcProtocol from "@connectrpc/connect/protocol-grpc";
import type { Method } from "../../domain/service.js";
import type { BodyCall } from "../call/body-call.js";
import { ProtocolError } from "../call/protocol-error.js";
import type { AnyRequest, AnyResponse } from "../handler.js";
import { splitTarget } from "../http/request-target.js";
import type { ReflectionHandler } from "../services/reflection.js";
import { ConnectUnaryResponse } from "./connect-unary-response.js";
import { EnvelopedResponse } from "./enveloped-response.js";
import { errorTrailers } from "./grpc-status.js";
import { type Codings, connectCodings, grpcCodings } from "./negotiate-coding.js";
import { acceptedTypes, type RpcContentType, rpcContentType, suits } from "./rpc-content-type.js";
import { type OpenedRequest, openCall, type RpcMethod, type RpcMethods } from "./rpc-methods.js";

const grpcTypePrefix = "application/grpc";

/** The header fields with which Connect calls name compressions. */
const unaryFields = { used: "content-encoding", accepted: "accept-encoding" };
const streamFields = { used: "connect-content-encoding", accepted: "connect-accept-encoding" };

/**
 * Serves gRPC-Web and Connect calls of all methods, and reflection, over both HTTP versions. gRPC has its own handler.
 * The response has its CORS headers already.
 */
export class RpcHandler {
  readonly #methods: RpcMethods;
  readonly #reflection: ReflectionHandler;

  constructor(methods: RpcMethods, reflection: ReflectionHandler) {
    this.#methods = methods;
    this.#reflection = reflection;
  }

  /**
   * Whether the path is that of a method, or the headers are those of gRPC or Connect. Never for OPTIONS. `path`
   * excludes base path and query.
   */
  matches(method: string, path: string, headers: IncomingHttpHeaders): boolean {
    if (method === "OPTIONS") return false;
    const isServed = this.#methods.get(path) !== undefined || this.#reflection.serves(path);
    return isServed || isGrpc(headers) || (method === "POST" && isConnect(headers));
  }

  /** The value of `Allow` for a method's path; undefined for any other path. */
  allowed(path: string): string | undefined {
    const served = this.#methods.get(path);
    if (served !== undefined) return allowedMethods(served.method);
    return this.#reflection.serves(path) ? postOnly : undefined;
  }

  handle(request: AnyRequest, response: AnyResponse): void {
    const { path, query } = splitTarget(request.url ?? "");
    const served = this.#methods.get(path);
    const allowed = this.allowed(path);
    if (allowed === undefined) refuseUnknown(path, request, response);
    else if (!allowed.split(", ").includes(request.method ?? "")) refuseMethod(allowed, request, response);
    else if (!hasUsableAuthority(request)) refuseAuthority(request, response);
    else if (served === undefined) this.#reflect(path, request, response);
    else if (request.method === "POST") this.#post(served, request, response);
    else this.#get(served, query, request, response);
  }

  #reflect(path: string, request: AnyRequest, response: AnyResponse): void {
    try {
      this.#reflection.handle(path, request, response);
    } catch {
      // It builds a URL of the request, which accepts less than the check of the authority.
      refuseAuthority(request, response);
    }
  }

  #post(served: RpcMethod, request: AnyRequest, response: AnyResponse): void {
    const { headers } = request;
    const type = rpcContentType(headers["content-type"]);
    if (type === undefined || !suits(type, served.method)) {
      refuseType(served.method, request, response);
      return;
    }
    if (type.protocol === "grpc") {
      request.resume();
      response.statusCode = 505;
      response.end("gRPC needs HTTP/2");
      return;
    }
    const codings =
      type.protocol === "grpc-web"
        ? grpcCodings(headers)
        : connectCodings(headers, type.enveloped ? streamFields : unaryFields);
    const call = this.#open(served, type, codings, request, response);
    request.on("data", (chunk: Buffer) => call.data(chunk));
    request.on("end", () => call.end());
  }

  /** A Connect unary call as a GET with its message in the URL. */
  #get(served: RpcMethod, text: string, request: AnyRequest, response: AnyResponse): void {
    const query = new URLSearchParams(text);
    const type = rpcContentType(`application/${query.get("encoding")}`);
    if (type?.protocol !== "connect" || type.enveloped) {
      refuseType(served.method, request, response);
      return;
    }
    request.resume();
    const codings = connectCodings(request.headers, unaryFields, query.get("compression") ?? "identity");
    const call = this.#open(served, type, codings, request, response);
    try {
      call.data(messageBytes(query));
      call.end();
    } catch (thrown) {
      call.fail(thrown);
    }
  }

  #open(
    served: RpcMethod,
    type: RpcContentType,
    codings: Codings,
    request: AnyRequest,
    response: AnyResponse,
  ): BodyCall {
    // A failed connection ends the call at "close".
    request.on("error", ignore);
    response.on("error", ignore);
    const wire = type.enveloped
      ? new EnvelopedResponse(type, codings.response, response)
      : new ConnectUnaryResponse(type, codings.response, request, response);
    const { headers } = request;
    const clientAddress = this.#methods.clients.ofRequest(request);
    const timeout = timeoutOf(type, headers);
    const call = openCall(this.#methods, { served, type, codings, timeout, wire, clientAddress, headers });
    response.on("close", () => call.left());
    if (served.method.kind === "server_streaming") response.on("drain", () => call.drained());
    return call;
  }
}

function ignore(): void {}

function timeoutOf({ protocol }: RpcContentType, headers: IncomingHttpHeaders): OpenedRequest["timeout"] {
  const [name, parse] =
    protocol === "connect"
      ? ["connect-timeout-ms", connectProtocol.parseTimeout]
      : ["grpc-timeout", grpcProtocol.parseTimeout];
  return parse(headers[name]?.toString() ?? null, Number.POSITIVE_INFINITY);
}

/** The message of a GET. @throws ProtocolError if its base64 is malformed */
function messageBytes(query: URLSearchParams): Buffer {
  const text = query.get("message") ?? "";
  if (query.get("base64") !== "1") return Buffer.from(text);
  if (/^[A-Za-z0-9_-]*={0,2}$/.test(text)) return Buffer.from(text, "base64url");
  throw new ProtocolError("invalid_argument", "message: is not URL-safe base64, which base64=1 announces");
}

const postOnly = "POST, OPTIONS";

/** Connect allows GET for calls without side effects. */
function allowedMethods({ kind, desc }: Method): string {
  const byGet = kind === "unary" && desc.idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS;
  return byGet ? "GET, HEAD, POST, OPTIONS" : postOnly;
}

function isGrpc(headers: IncomingHttpHeaders): boolean {
  return headers["content-type"]?.startsWith(grpcTypePrefix) ?? false;
}

/** Whether a POST identifies itself as a Connect call. JSON alone does not. */
function isConnect(headers: IncomingHttpHeaders): boolean {
  const type = headers["content-type"] ?? "";
  return headers["connect-protocol-version"] !== undefined || /^application\/(proto$|connect\+)/.test(type);
}

/** Host and port as valid in a URL. RFC 9112, 3.2, requires 400 otherwise. */
function hasUsableAuthority({ headers }: AnyRequest): boolean {
  const authority = headers[":authority"] ?? headers.host;
  return typeof authority !== "string" || /^[\w.~!$&'()*+,;=%:[\]-]*$/.test(authority);
}

function refuseAuthority(request: AnyRequest, response: AnyResponse): void {
  request.resume();
  sendError(response, 400, "invalid_argument", "the request names no valid authority (Host)");
}

function refuseUnknown(path: string, request: AnyRequest, response: AnyResponse): void {
  const error = new ProtocolError("unimplemented", `no method is served at ${path}`);
  request.resume();
  if (!isGrpc(request.headers)) {
    sendError(response, 404, error.code, error.message);
    return;
  }
  response.setHeader("content-type", request.headers["content-type"] ?? grpcTypePrefix);
  for (const [name, value] of Object.entries(errorTrailers(error))) response.setHeader(name, value);
  response.end();
}

/** 415 with `Accept-Post`. */
function refuseType(method: Method, request: AnyRequest, response: AnyResponse): void {
  request.resume();
  response.statusCode = 415;
  response.setHeader("accept-post", acceptedTypes(method));
  response.end();
}

/** 405 with `Allow` and no body. Callers of gRPC and Connect take the error from the status, as their protocols say. */
function refuseMethod(allowed: string, request: AnyRequest, response: AnyResponse): void {
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

/** Responds with an error in Connect's format. */
function sendError(response: AnyResponse, status: number, code: string, message: string): void {
  response.statusCode = status;
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ code, message }));
}
