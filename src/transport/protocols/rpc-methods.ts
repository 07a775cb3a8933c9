import { createRegistry } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import type { Codec } from "../../domain/encoded-response.js";
import { type Failure, repeated } from "../../domain/failure.js";
import type { RequestHeaders } from "../../domain/metadata.js";
import type { Method } from "../../domain/service.js";
import { anyRegistry } from "../../encoding/json-encoder.js";
import { type ContentCoding, chooseCoding, contentCodings, preferenceLengthMax } from "../call/content-coding.js";
import { decodeBinary, jsonDecoder, type RequestDecoder, rememberingRequests } from "../call/framing.js";
import type { ServedMethod } from "../call/server-call.js";
import { protocolFailure } from "../errors.js";
import type { HandlerOptions } from "../options.js";

/** A method as served over the RPC protocols. */
export interface RpcMethod {
  readonly method: Method;
  /** The HTTP methods of its path, as in `Allow`. */
  readonly allowed: string;
  readonly decode: Readonly<Record<Codec, RequestDecoder>>;
  readonly grpc: ServedMethod;
  readonly "grpc-web": ServedMethod;
  readonly connect: ServedMethod;
}

/** The methods of an API by their path, which all RPC protocols share. */
export function rpcMethods(options: HandlerOptions): ReadonlyMap<string, RpcMethod> {
  // A message of the API may occur in an Any of another.
  const decodeJson = jsonDecoder(createRegistry(anyRegistry, ...options.api.map((method) => method.desc.parent.file)));
  const methods = new Map<string, RpcMethod>();
  for (const method of options.api) {
    const served = (protocol: RpcContentType["protocol"]): ServedMethod => {
      return { method, counters: options.requests(method, protocol), options };
    };
    methods.set(`/${method.desc.parent.typeName}/${method.desc.name}`, {
      method,
      allowed: allowedMethods(method),
      decode: { proto: rememberingRequests(decodeBinary), json: rememberingRequests(decodeJson) },
      grpc: served("grpc"),
      "grpc-web": served("grpc-web"),
      connect: served("connect"),
    });
  }
  return methods;
}

/** Connect allows GET for calls without side effects. */
function allowedMethods({ kind, desc }: Method): string {
  const byGet = kind === "unary" && desc.idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS;
  return byGet ? "GET, HEAD, POST, OPTIONS" : "POST, OPTIONS";
}

/** What the content type of a request says about a call. */
export interface RpcContentType {
  /** The same for gRPC, gRPC-Web and Connect. */
  readonly protocol: "grpc" | "grpc-web" | "connect";
  readonly codec: Codec;
  /** Whether messages are in envelopes: all are, except in Connect's unary calls. */
  readonly enveloped: boolean;
  /** Whether the whole body is base64. */
  readonly text: boolean;
  /** The content type of the response. */
  readonly response: string;
}

const codecs: readonly Codec[] = ["json", "proto"];

const byName = new Map<string, RpcContentType>();
for (const [prefix, protocol] of [
  ["application/", "connect"],
  ["application/connect+", "connect"],
  ["application/grpc+", "grpc"],
  ["application/grpc-web+", "grpc-web"],
  ["application/grpc-web-text+", "grpc-web"],
] as const) {
  for (const codec of codecs) {
    const response = `${prefix}${codec}`;
    const type = { protocol, codec, enveloped: prefix.endsWith("+"), text: prefix.endsWith("-text+"), response };
    byName.set(response, type);
    // Without a codec, it is protobuf.
    if (protocol !== "connect" && codec === "proto") byName.set(prefix.slice(0, -1), type);
  }
}

/** Undefined: not a content type of an RPC protocol. A charset must be UTF-8. */
export function rpcContentType(header: string | undefined): RpcContentType | undefined {
  if (header === undefined) return undefined;
  return byName.get(header) ?? byName.get(header.toLowerCase().replace(/; ?charset=utf-?8$/, ""));
}

/** Whether calls of the method may have this content type. */
export function suits(type: RpcContentType, { kind }: Method): boolean {
  return type.protocol !== "connect" || type.enveloped === (kind !== "unary");
}

/** The content types that calls of a method can have, as an `Accept-Post` header. */
export function acceptedTypes(method: Method): string {
  return [...byName]
    .filter(([, type]) => suits(type, method))
    .map(([name]) => name)
    .join(", ");
}

/** The header fields with which a protocol names compressions. */
export interface CodingFields {
  /** The compression of the messages, in requests and responses. */
  readonly used: string;
  /** The compressions that the peer accepts. */
  readonly accepted: string;
}

/** The compressions of a call. */
export interface Codings {
  readonly request: ContentCoding | undefined;
  readonly response: ContentCoding | undefined;
  /** The request's compression is not supported. */
  readonly refusal?: Failure;
}

const none: Codings = { request: undefined, response: undefined };

/** The fields of gRPC and gRPC-Web. */
export const grpcFields: CodingFields = { used: "grpc-encoding", accepted: "grpc-accept-encoding" };

/**
 * The compressions of a gRPC or gRPC-Web call. The response is compressed if the request was: clients list what they
 * can read, not what they want. https://github.com/grpc/grpc/blob/master/doc/compression.md
 */
export function grpcCodings(headers: RequestHeaders): Codings {
  const used = headers[grpcFields.used];
  if (used === undefined || used === "identity") return none;
  const request = String(used);
  if (!isCoding(request)) return unknownCoding(request, grpcFields);
  const accepted = headers[grpcFields.accepted];
  if (accepted === undefined || accepted === "") return { request, response: request };
  const names = String(accepted)
    .split(",")
    .map((name) => name.trim());
  return { request, response: names.find(isCoding) };
}

/** The compressions of a Connect call: the client's preferred one for the response, or else the request's. */
export function connectCodings(headers: RequestHeaders, fields: CodingFields, used = headers[fields.used]): Codings {
  const request = used === undefined || used === "identity" ? undefined : String(used);
  if (request !== undefined && !isCoding(request)) return unknownCoding(request, fields);
  const accepted = String(headers[fields.accepted] ?? "");
  const isRead = accepted !== "" && accepted.length <= preferenceLengthMax;
  const response = isRead ? chooseCoding(accepted) : request;
  return request === undefined && response === undefined ? none : { request, response };
}

function unknownCoding(name: string, { accepted }: CodingFields): Codings {
  const known = contentCodings.join(",");
  const metadata = { headers: new Map([[accepted, known]]), trailers: new Map<string, string>() };
  const message = `unknown compression "${repeated(name)}": supported encodings are ${known}`;
  return { ...none, refusal: protocolFailure("unimplemented", message, { metadata }) };
}

function isCoding(name: string): name is ContentCoding {
  return name === "br" || name === "gzip";
}
