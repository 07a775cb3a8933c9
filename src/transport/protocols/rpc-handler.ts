import type { IncomingHttpHeaders } from "node:http";
import type { Stream } from "node:stream";
import * as connectProtocol from "@connectrpc/connect/protocol-connect";
import * as grpcProtocol from "@connectrpc/connect/protocol-grpc";
import { repeated } from "../../domain/failure.js";
import type { Method } from "../../domain/service.js";
import type { ContentCoding } from "../call/content-coding.js";
import { BidiCall, BodyCall, type CallWire } from "../call/server-call.js";
import type { HeaderFields } from "../common-headers.js";
import { type Exchange, Http2Exchange } from "../connections/exchange.js";
import { clientDeadlineExceeded, errorTrailers, protocolFailure, wrongMethod } from "../errors.js";
import type { HandlerOptions } from "../options.js";
import { ConnectUnaryResponse, EnvelopedResponse, sendConnectError } from "./connect-response.js";
import { GrpcResponse } from "./grpc-response.js";
import {
  acceptedTypes,
  type Codings,
  connectCodings,
  grpcCodings,
  type RpcContentType,
  type RpcMethod,
  rpcContentType,
  rpcMethods,
  suits,
} from "./rpc-methods.js";

const grpcTypePrefix = "application/grpc";

/** The header fields with which Connect calls name compressions. */
const unaryFields = { used: "content-encoding", accepted: "accept-encoding" };
const streamFields = { used: "connect-content-encoding", accepted: "connect-accept-encoding" };

/** Serves gRPC, gRPC-Web and Connect calls of all methods. */
export class RpcHandler {
  readonly #methods: ReadonlyMap<string, RpcMethod>;
  /** That header of unary Connect responses. */
  readonly #vary: string;

  constructor(private readonly options: HandlerOptions) {
    this.#methods = rpcMethods(options);
    this.#vary = options.common.vary("accept-encoding");
  }

  /** Whether the path is that of a method, or the headers are those of gRPC or Connect. `path` excludes the base path. */
  matches({ method, headers }: Exchange, path: string): boolean {
    return this.#methods.has(path) || isGrpc(headers) || (method === "POST" && isConnect(headers));
  }

  /** The value of `Allow` for a method's path; undefined for any other path. */
  allowed(path: string): string | undefined {
    return this.#methods.get(path)?.allowed;
  }

  /** `path` excludes the base path, and `query` its question mark. */
  handle(exchange: Exchange, path: string, query: string): void {
    const { method } = exchange;
    const served = this.#methods.get(path);
    if (served === undefined) refuseUnknown(path, exchange);
    else if (method === "POST") this.#post(served, exchange);
    else if (!served.allowed.split(", ").includes(method)) refuseMethod(served.allowed, exchange);
    else this.#get(served, query, exchange);
  }

  #post(served: RpcMethod, exchange: Exchange): void {
    const { headers } = exchange;
    const type = rpcContentType(headers["content-type"]);
    if (type === undefined || !suits(type, served.method)) refuseType(served.method, exchange);
    else if (needsHttp2(type, served.method) && !(exchange instanceof Http2Exchange)) {
      send(exchange, 505, {}, "gRPC, and streams in both directions, need HTTP/2");
    } else {
      const fields = type.enveloped ? streamFields : unaryFields;
      const codings = type.protocol === "connect" ? connectCodings(headers, fields) : grpcCodings(headers);
      const { body }: { readonly body: CarrierOfCall } = exchange;
      body[carriedCall] = this.#open(served, type, codings, exchange);
      body.on("data", onData);
      body.on("end", onEnd);
    }
  }

  /** A Connect unary call as a GET with its message in the URL. */
  #get(served: RpcMethod, text: string, exchange: Exchange): void {
    const query = new URLSearchParams(text);
    const type = rpcContentType(`application/${query.get("encoding")}`);
    if (type?.protocol !== "connect" || type.enveloped) refuseType(served.method, exchange);
    else {
      const codings = connectCodings(exchange.headers, unaryFields, query.get("compression") ?? "identity");
      const call = this.#open(served, type, codings, exchange);
      try {
        call.data(messageBytes(query, text));
        call.end();
      } catch (thrown) {
        call.fail(thrown);
      }
    }
  }

  #wire(type: RpcContentType, coding: ContentCoding | undefined, exchange: Exchange): CallWire {
    if (type.protocol === "grpc" && exchange instanceof Http2Exchange) return new GrpcResponse(type, coding, exchange);
    if (type.enveloped) return new EnvelopedResponse(type, coding, exchange);
    return new ConnectUnaryResponse(type, coding, exchange, this.#vary);
  }

  /** Starts a call whose requests follow. If its headers are invalid, it has ended already. */
  #open(served: RpcMethod, type: RpcContentType, codings: Codings, exchange: Exchange): RpcCall {
    const { timeoutMs, error } = timeoutOf(type, exchange.headers);
    const { kind } = served.method;
    const isBidi = kind === "bidi_streaming";
    const { streamedRequestBytesMax, requestBodyBytesMax } = this.options.limits;
    const bytesMax = isBidi ? streamedRequestBytesMax : requestBodyBytesMax;
    const { enveloped, text } = type;
    const reading = { bytesMax, coding: codings.request, decode: served.decode[type.codec], enveloped, text };
    // Responses of bidirectional streams are not compressed: each is made for one request, and the next for another.
    const wire = this.#wire(type, isBidi ? undefined : codings.response, exchange);
    const Call = isBidi ? BidiCall : BodyCall;
    const call = new Call(served[type.protocol], reading, wire, exchange, timeoutMs);
    follow(exchange, call, kind !== "unary");
    if (timeoutMs !== undefined && timeoutMs <= 0) call.fail(clientDeadlineExceeded());
    if (codings.refusal !== undefined) call.fail(codings.refusal);
    if (error !== undefined) call.fail(protocolFailure("invalid_argument", repeated(error.rawMessage)));
    if (call instanceof BidiCall && !call.isDone) call.open();
    return call;
  }
}

type RpcCall = BodyCall | BidiCall;

/** The property in which requests and responses store their call. Listeners that all share cost less than closures. */
const carriedCall = Symbol("the call that is carried");

interface CarrierOfCall extends Stream {
  [carriedCall]?: RpcCall;
}

/** Tells a call of its connection. Errors need no more than a listener: a connection that failed ends the call at "close". */
function follow(exchange: Exchange, call: RpcCall, streaming: boolean): void {
  const carrier: CarrierOfCall = exchange.output;
  carrier[carriedCall] = call;
  carrier.on("close", onClose);
  if (streaming) carrier.on("drain", onDrain);
  if (exchange instanceof Http2Exchange) return;
  exchange.body.on("error", ignore);
  exchange.output.on("error", ignore);
}

function onData(this: CarrierOfCall, chunk: Buffer): void {
  this[carriedCall]?.data(chunk);
}

function onEnd(this: CarrierOfCall): void {
  this[carriedCall]?.end();
}

function onClose(this: CarrierOfCall): void {
  this[carriedCall]?.left();
}

function onDrain(this: CarrierOfCall): void {
  this[carriedCall]?.drained();
}

function ignore(): void {}

function needsHttp2({ protocol }: RpcContentType, { kind }: Method): boolean {
  return protocol === "grpc" || kind === "bidi_streaming";
}

/** The client's time limit, counted from now. */
function timeoutOf({ protocol }: RpcContentType, headers: IncomingHttpHeaders) {
  const { parseTimeout } = protocol === "connect" ? connectProtocol : grpcProtocol;
  const value = headers[protocol === "connect" ? "connect-timeout-ms" : "grpc-timeout"];
  return parseTimeout(value?.toString() ?? null, Number.POSITIVE_INFINITY);
}

/** The message of a GET. @throws Failure if its escapes or its base64 are malformed */
function messageBytes(query: URLSearchParams, raw: string): Buffer {
  const text = query.get("message") ?? "";
  if (query.get("base64") !== "1") {
    // Bytes that are no text would be replaced, and the message be another one.
    if (isUtf8(raw)) return Buffer.from(text);
    throw protocolFailure("invalid_argument", "message: takes percent escapes of UTF-8 text; send bytes with base64=1");
  }
  if (/^[A-Za-z0-9_-]*={0,2}$/.test(text)) return Buffer.from(text, "base64url");
  throw protocolFailure("invalid_argument", "message: is not URL-safe base64, which base64=1 announces");
}

/** Whether all escapes of a query are whole, and are of text. */
function isUtf8(query: string): boolean {
  try {
    decodeURIComponent(query);
    return true;
  } catch {
    return false;
  }
}

function isGrpc(headers: IncomingHttpHeaders): boolean {
  return headers["content-type"]?.startsWith(grpcTypePrefix) ?? false;
}

/** Whether a POST identifies itself as a Connect call. JSON alone does not. */
function isConnect(headers: IncomingHttpHeaders): boolean {
  const type = headers["content-type"] ?? "";
  return headers["connect-protocol-version"] !== undefined || /^application\/(proto$|connect\+)/.test(type);
}

function refuseUnknown(path: string, exchange: Exchange): void {
  const { headers } = exchange;
  const error = protocolFailure("unimplemented", `no method is served at ${repeated(path)}`);
  if (!isGrpc(headers)) sendError(exchange, 404, error.code, error.message);
  else send(exchange, 200, { "content-type": headers["content-type"] ?? grpcTypePrefix, ...errorTrailers(error) });
}

/** 415 with `Accept-Post`. Clients take its code from the status. The charset tells it from an error of a Connect call. */
function refuseType(method: Method, exchange: Exchange): void {
  const accepted = acceptedTypes(method);
  const ofPost = `the content type is not supported here; use one of ${accepted}`;
  const message = exchange.method === "POST" ? ofPost : "encoding: takes json or proto";
  const headers = { "accept-post": accepted, "content-type": "application/json; charset=utf-8" };
  sendError(exchange, 415, "unknown", message, headers);
}

/** 405 with `Allow`. Callers of gRPC and Connect get no error object: their protocols take the error from the status. */
function refuseMethod(allow: string, exchange: Exchange): void {
  const { method, headers } = exchange;
  const error = wrongMethod(method, allow);
  if (!isGrpc(headers) && !isConnect(headers)) sendConnectError(exchange, error);
  else send(exchange, 405, { allow, "content-type": "text/plain" }, error.message);
}

/** Responds with an error without details, in Connect's format. */
function sendError(exchange: Exchange, status: number, code: string, message: string, headers?: HeaderFields): void {
  send(exchange, status, { "content-type": "application/json", ...headers }, JSON.stringify({ code, message }));
}

function send(exchange: Exchange, status: number, headers: HeaderFields, body = ""): void {
  const bytes = Buffer.from(body);
  exchange.send(status, { "cache-control": "no-store", ...headers, "content-length": bytes.length }, bytes);
}
