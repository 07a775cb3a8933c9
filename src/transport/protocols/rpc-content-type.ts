import type { Method } from "../../domain/service.js";
import type { Codec } from "../call/framing.js";

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
for (const codec of codecs) {
  add(`application/${codec}`, { protocol: "connect", codec, enveloped: false, text: false });
}
for (const codec of codecs) {
  add(`application/connect+${codec}`, { protocol: "connect", codec, enveloped: true, text: false });
}
for (const codec of codecs) {
  add(`application/grpc+${codec}`, { protocol: "grpc", codec, enveloped: true, text: false });
  add(`application/grpc-web+${codec}`, { protocol: "grpc-web", codec, enveloped: true, text: false });
  add(`application/grpc-web-text+${codec}`, { protocol: "grpc-web", codec, enveloped: true, text: true });
}
// Without a codec, it is protobuf.
for (const name of ["application/grpc", "application/grpc-web", "application/grpc-web-text"]) {
  const type = byName.get(`${name}+proto`);
  if (type !== undefined) byName.set(name, type);
}

function add(response: string, type: Omit<RpcContentType, "response">): void {
  byName.set(response, { ...type, response });
}

/** Undefined: not a content type of an RPC protocol. A charset must be UTF-8. */
export function rpcContentType(header: string | undefined): RpcContentType | undefined {
  if (header === undefined) return undefined;
  return byName.get(header) ?? byName.get(header.toLowerCase().replace(/; ?charset=utf-?8$/, ""));
}

/** Whether calls of the method may have this content type. */
export function suits(type: RpcContentType, { kind }: Method): boolean {
  return type.protocol !== "connect" || type.enveloped === (kind === "server_streaming");
}

/** The content types that calls of a method can have, as an `Accept-Post` header. */
export function acceptedTypes(method: Method): string {
  return [...byName]
    .filter(([, type]) => suits(type, method))
    .map(([name]) => name)
    .join(", ");
}
