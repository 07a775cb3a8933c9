import { createRegistry } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import type { ConnectError } from "@connectrpc/connect";
import type { RequestHeaders } from "../../domain/metadata.js";
import type { Method } from "../../domain/service.js";
import { anyRegistry } from "../../encoding/json-encoder.js";
import { BodyCall } from "../call/body-call.js";
import type { CallWire } from "../call/call-wire.js";
import type { Codec } from "../call/framing.js";
import { ProtocolError } from "../call/protocol-error.js";
import { rememberingRequests } from "../call/request-memo.js";
import {
  BodyReader,
  decodeBinary,
  EnvelopeReader,
  jsonDecoder,
  type RequestDecoder,
  TextEnvelopeReader,
} from "../call/request-reader.js";
import type { ServedMethod } from "../call/server-call.js";
import type { ClientAddresses } from "../client-addresses.js";
import type { HandlerOptions } from "../handler.js";
import type { Codings } from "./negotiate-coding.js";
import type { RpcContentType } from "./rpc-content-type.js";

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
export class RpcMethods {
  readonly clients: ClientAddresses;
  /** The maximum size of a request message, in bytes. */
  readonly bytesMax: number;
  readonly #methods = new Map<string, RpcMethod>();

  constructor(options: HandlerOptions) {
    this.clients = options.clients;
    this.bytesMax = options.limits.requestBodyBytesMax;
    // A message of the API may occur in an Any of another.
    const decodeJson = jsonDecoder(
      createRegistry(anyRegistry, ...options.api.map((method) => method.desc.parent.file)),
    );
    for (const method of options.api) {
      const served = (protocol: "grpc" | "grpc-web" | "connect"): ServedMethod => {
        return { method, counters: options.requests.counters(method, protocol), options };
      };
      this.#methods.set(`/${method.desc.parent.typeName}/${method.desc.name}`, {
        method,
        allowed: allowedMethods(method),
        decode: { proto: rememberingRequests(decodeBinary), json: rememberingRequests(decodeJson) },
        grpc: served("grpc"),
        "grpc-web": served("grpc-web"),
        connect: served("connect"),
      });
    }
  }

  get(path: string): RpcMethod | undefined {
    return this.#methods.get(path);
  }
}

/** Connect allows GET for calls without side effects. */
function allowedMethods({ kind, desc }: Method): string {
  const byGet = kind === "unary" && desc.idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS;
  return byGet ? "GET, HEAD, POST, OPTIONS" : "POST, OPTIONS";
}

/** What a protocol read from the request headers. */
export interface OpenedRequest {
  readonly served: RpcMethod;
  readonly type: RpcContentType;
  readonly codings: Codings;
  readonly timeout: { readonly timeoutMs?: number; readonly error?: ConnectError | undefined };
  readonly wire: CallWire;
  readonly clientAddress: string;
  readonly headers: RequestHeaders;
}

const kindNames = { unary: "unary", server_streaming: "server-streaming" } as const;

/** Starts a call whose request message follows. If its headers are invalid, it has ended already. */
export function openCall({ bytesMax }: RpcMethods, request: OpenedRequest): BodyCall {
  const { served, type, codings, timeout, wire, clientAddress, headers } = request;
  const bounds = { bytesMax, coding: codings.request };
  const envelopes = new EnvelopeReader(bounds, kindNames[served.method.kind]);
  const reader = !type.enveloped ? new BodyReader(bounds) : type.text ? new TextEnvelopeReader(envelopes) : envelopes;
  const decode = served.decode[type.codec];
  const call = new BodyCall(served[type.protocol], reader, decode, wire, clientAddress, headers, timeout.timeoutMs);
  if (codings.refusal !== undefined) call.fail(codings.refusal);
  if (timeout.error !== undefined) call.fail(new ProtocolError("invalid_argument", timeout.error.rawMessage));
  return call;
}
