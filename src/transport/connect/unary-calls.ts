import type { Method } from "../../domain/service.js";
import { methodPath } from "../grpc/grpc-lane.js";
import { ProtocolError } from "../grpc/protocol-error.js";
import { rememberingRequests } from "../grpc/request-memo.js";
import { decodeBinary, type RequestDecoder, type RpcCall, type ServedMethod } from "../grpc/rpc-call.js";
import { type ContentCoding, decompress } from "../http/content-coding.js";
import type { AnyRequest, AnyResponse, LaneOptions } from "../lane.js";
import { BodyReader } from "./body-reader.js";
import { ConnectUnaryWire, jsonEncoding, protoEncoding, type UnaryEncoding } from "./connect-unary-wire.js";
import { startCall, type TimeoutRule } from "./start-call.js";
import { decodeJson, parseConnectTimeout } from "./web-protocol.js";

const timeoutRule: TimeoutRule = {
  timeoutHeader: "connect-timeout-ms",
  timeoutName: "connect",
  parseTimeout: parseConnectTimeout,
};

interface Served {
  readonly encoding: UnaryEncoding;
  readonly methods: ReadonlyMap<string, ServedMethod>;
}

/**
 * The short way for Connect unary calls with uncompressed requests: POST, and GET with an ETag. Answers are shared bytes,
 * compressed ones too. What it does not take, Connect itself serves.
 */
export class UnaryCalls {
  readonly #json: Served;
  readonly #proto: Served;

  constructor(options: LaneOptions) {
    const methods = options.api.filter((method) => method.kind === "unary");
    this.#json = { encoding: jsonEncoding, methods: serving(methods, decodeJson, options) };
    this.#proto = { encoding: protoEncoding, methods: serving(methods, decodeBinary, options) };
  }

  /** Serves the request if it is such a call; false: it is not. */
  handle(path: string, request: AnyRequest, response: AnyResponse): boolean {
    return request.method === "POST" ? this.#post(path, request, response) : this.#get(path, request, response);
  }

  #post(path: string, request: AnyRequest, response: AnyResponse): boolean {
    const encoding = request.headers["content-encoding"];
    if (encoding !== undefined && encoding !== "identity") return false;
    const type = request.headers["content-type"];
    const { methods, encoding: form } = type === "application/json" ? this.#json : this.#proto;
    const served = type === "application/json" || type === "application/proto" ? methods.get(path) : undefined;
    if (served === undefined) return false;
    const call = start(served, form, request, response);
    request.on("data", (chunk: Buffer) => call.data(chunk));
    request.on("end", () => call.end());
    return true;
  }

  #get(path: string, request: AnyRequest, response: AnyResponse): boolean {
    if (request.method !== "GET" && request.method !== "HEAD") return false;
    const target = request.url ?? "";
    const query = new URLSearchParams(target.slice(path.length));
    const name = query.get("encoding");
    const coding = query.get("compression") ?? "identity";
    if ((name !== "json" && name !== "proto") || !isReadable(coding)) return false;
    const { methods, encoding } = name === "json" ? this.#json : this.#proto;
    const served = methods.get(path);
    if (served === undefined) return false;
    request.resume();
    const call = start(served, encoding, request, response);
    try {
      const bytes = messageBytes(query);
      call.data(coding === "identity" ? bytes : decompressed(coding, bytes, served.options.limits.requestBodyBytesMax));
      call.end();
    } catch (thrown) {
      call.refuse(thrown);
    }
    return true;
  }
}

function start(served: ServedMethod, encoding: UnaryEncoding, request: AnyRequest, response: AnyResponse): RpcCall {
  const wire = new ConnectUnaryWire(encoding, request, response);
  return startCall(timeoutRule, served, wire, request, response);
}

function serving(methods: readonly Method[], decode: RequestDecoder, options: LaneOptions): Map<string, ServedMethod> {
  return new Map(
    methods.map((method) => {
      const cells = options.requests.cells(method, "connect");
      const served: ServedMethod = {
        method,
        decode: rememberingRequests(decode),
        reader: (bytesMax) => new BodyReader(bytesMax),
        cells,
        options,
      };
      return [methodPath(method), served];
    }),
  );
}

/** The message of a GET. @throws ProtocolError when it is base64 that is none */
function messageBytes(query: URLSearchParams): Buffer {
  const text = query.get("message") ?? "";
  if (query.get("base64") !== "1") return Buffer.from(text);
  if (/^[A-Za-z0-9_-]*={0,2}$/.test(text)) return Buffer.from(text, "base64url");
  throw new ProtocolError("invalid_argument", "message: is not URL-safe base64, which base64=1 announces");
}

function isReadable(coding: string): coding is ContentCoding | "identity" {
  return coding === "identity" || coding === "br" || coding === "gzip";
}

/** @throws ProtocolError */
function decompressed(coding: ContentCoding, bytes: Buffer, bytesMax: number): Buffer {
  try {
    return decompress(coding, bytes, bytesMax);
  } catch (thrown) {
    if (thrown instanceof RangeError) {
      const message = `message is larger than configured readMaxBytes ${bytesMax} after decompression`;
      throw new ProtocolError("resource_exhausted", message);
    }
    throw new ProtocolError("invalid_argument", `message: is not in ${coding}, which compression=${coding} announces`);
  }
}
