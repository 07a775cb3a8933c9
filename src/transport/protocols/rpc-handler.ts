import type { IncomingHttpHeaders } from "node:http";
import * as connectProtocol from "@connectrpc/connect/protocol-connect";
import * as grpcProtocol from "@connectrpc/connect/protocol-grpc";
import { repeated } from "../../domain/failure.js";
import type { Method } from "../../domain/service.js";
import type { BidiCall, BodyCall } from "../call/server-call.js";
import type { HeaderFields } from "../common-headers.js";
import { ProtocolError } from "../errors.js";
import type { AnyRequest, AnyResponse } from "../options.js";
import { ConnectUnaryResponse } from "./connect-unary-response.js";
import { EnvelopedResponse } from "./enveloped-response.js";
import { errorTrailers } from "./rpc-errors.js";
import {
  acceptedTypes,
  type Codings,
  codingsOf,
  connectCodings,
  grpcCodings,
  type OpenedRequest,
  openCall,
  type RpcContentType,
  type RpcMethod,
  type RpcMethods,
  rpcContentType,
  suits,
} from "./rpc-methods.js";
import { RpcResponse } from "./rpc-response.js";

const grpcTypePrefix = "application/grpc";

/** The header fields with which Connect calls name compressions. */
const unaryFields = { used: "content-encoding", accepted: "accept-encoding" };
const streamFields = { used: "connect-content-encoding", accepted: "connect-accept-encoding" };

/** A request to an RPC, and its response. */
export interface RpcExchange {
  readonly request: AnyRequest;
  readonly response: AnyResponse;
  /** The headers of every response. */
  readonly common: HeaderFields;
}

/** Serves gRPC-Web and Connect calls of all methods over both HTTP versions. gRPC has its own handler. */
export class RpcHandler {
  readonly #methods: RpcMethods;
  readonly #vary: string;

  /** `vary`: that header of unary Connect responses. */
  constructor(methods: RpcMethods, vary: string) {
    this.#methods = methods;
    this.#vary = vary;
  }

  /**
   * Whether the path is that of a method, or the headers are those of gRPC or Connect. Never for OPTIONS. `path`
   * excludes base path and query.
   */
  matches(method: string, path: string, headers: IncomingHttpHeaders): boolean {
    if (method === "OPTIONS") return false;
    return this.#methods.get(path) !== undefined || isGrpc(headers) || (method === "POST" && isConnect(headers));
  }

  /** The value of `Allow` for a method's path; undefined for any other path. */
  allowed(path: string): string | undefined {
    return this.#methods.get(path)?.allowed;
  }

  /** `path` excludes the base path, and `query` its question mark. */
  handle(exchange: RpcExchange, path: string, query: string): void {
    const { method } = exchange.request;
    const served = this.#methods.get(path);
    if (served === undefined) refuseUnknown(path, exchange);
    else if (method !== "POST" && !served.allowed.split(", ").includes(method ?? "")) {
      refuseMethod(served.allowed, exchange);
    } else if (!hasUsableAuthority(exchange.request)) refuseAuthority(exchange);
    else if (method === "POST") this.#post(served, exchange);
    else this.#get(served, query, exchange);
  }

  #post(served: RpcMethod, exchange: RpcExchange): void {
    const { request } = exchange;
    const { headers } = request;
    const type = rpcContentType(headers["content-type"]);
    if (type === undefined || !suits(type, served.method)) {
      refuseType(served.method, exchange);
      return;
    }
    if (type.protocol === "grpc" || (served.method.kind === "bidi_streaming" && request.httpVersionMajor === 1)) {
      send(exchange, 505, {}, "gRPC, and streams in both directions, need HTTP/2");
      return;
    }
    const fields = type.enveloped ? streamFields : unaryFields;
    const given = type.protocol === "grpc-web" ? grpcCodings(headers) : connectCodings(headers, fields);
    const codings = codingsOf(served.method, given);
    const call = this.#open(served, type, codings, exchange);
    request.on("data", (chunk: Buffer) => call.data(chunk));
    request.on("end", () => call.end());
  }

  /** A Connect unary call as a GET with its message in the URL. */
  #get(served: RpcMethod, text: string, exchange: RpcExchange): void {
    const { request } = exchange;
    const query = new URLSearchParams(text);
    const type = rpcContentType(`application/${query.get("encoding")}`);
    if (type?.protocol !== "connect" || type.enveloped) {
      refuseType(served.method, exchange);
      return;
    }
    request.resume();
    const codings = connectCodings(request.headers, unaryFields, query.get("compression") ?? "identity");
    const call = this.#open(served, type, codings, exchange);
    try {
      call.data(messageBytes(query));
      call.end();
    } catch (thrown) {
      call.fail(thrown);
    }
  }

  #open(served: RpcMethod, type: RpcContentType, codings: Codings, exchange: RpcExchange): BodyCall | BidiCall {
    const { request, response, common } = exchange;
    // A failed connection ends the call at "close".
    request.on("error", ignore);
    response.on("error", ignore);
    const rpcResponse = new RpcResponse(response, common);
    if (!type.enveloped) rpcResponse.set("vary", this.#vary);
    const wire = type.enveloped
      ? new EnvelopedResponse(type, codings.response, rpcResponse)
      : new ConnectUnaryResponse(type, codings.response, request, rpcResponse);
    const { headers } = request;
    const clientAddress = this.#methods.clients.ofRequest(request);
    const timeout = timeoutOf(type, headers);
    const call = openCall(this.#methods, { served, type, codings, timeout, wire, clientAddress, headers });
    response.on("close", () => call.left());
    if (served.method.kind !== "unary") response.on("drain", () => call.drained());
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

function refuseAuthority(exchange: RpcExchange): void {
  sendError(exchange, 400, "invalid_argument", "the request names no valid authority (Host)");
}

function refuseUnknown(path: string, exchange: RpcExchange): void {
  const { headers } = exchange.request;
  const error = new ProtocolError("unimplemented", `no method is served at ${repeated(path)}`);
  if (!isGrpc(headers)) sendError(exchange, 404, error.code, error.message);
  else send(exchange, 200, { "content-type": headers["content-type"] ?? grpcTypePrefix, ...errorTrailers(error) });
}

/** 415 with `Accept-Post`. */
function refuseType(method: Method, exchange: RpcExchange): void {
  send(exchange, 415, { "accept-post": acceptedTypes(method) });
}

/** 405 with `Allow`. Callers of gRPC and Connect get no error object: their protocols take the error from the status. */
function refuseMethod(allow: string, exchange: RpcExchange): void {
  const { method, headers } = exchange.request;
  const message = `${repeated(method ?? "")} is not allowed here; use one of ${allow}`;
  if (!isGrpc(headers) && !isConnect(headers)) sendError(exchange, 405, "unimplemented", message, { allow });
  else send(exchange, 405, { allow, "content-type": "text/plain" }, message);
}

/** Responds with an error in Connect's format. */
function sendError(exchange: RpcExchange, status: number, code: string, message: string, headers?: HeaderFields): void {
  send(exchange, status, { "content-type": "application/json", ...headers }, JSON.stringify({ code, message }));
}

/** Responds without reading the request. */
function send({ request, response, common }: RpcExchange, status: number, headers: HeaderFields, body = ""): void {
  request.resume();
  const whole = new RpcResponse(response, { ...common, ...headers });
  whole.status = status;
  whole.end(Buffer.from(body));
}
