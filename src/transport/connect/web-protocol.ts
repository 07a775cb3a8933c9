import type { MessageShape } from "@bufbuild/protobuf";
import { fromJsonString } from "@bufbuild/protobuf";
import { endStreamToJson } from "@connectrpc/connect/protocol-connect";
import type { Form } from "../../domain/answer.js";
import type { Method } from "../../domain/service.js";
import { anyRegistry, jsonWriteOptions } from "../../encoding/json-encoder.js";
import type { CallError } from "../grpc/call-wire.js";
import { parseGrpcTimeout } from "../grpc/deadline.js";
import { binaryEnvelope, envelope, jsonEnvelope } from "../grpc/envelope.js";
import { errorTrailers, okTrailers } from "../grpc/grpc-status.js";
import { ProtocolError } from "../grpc/protocol-error.js";
import { decodeBinary, type RequestDecoder } from "../grpc/rpc-call.js";
import type { Protocol } from "../request-metrics.js";
import { asConnectError } from "./connect-error.js";
import type { TimeoutRule } from "./start-call.js";

const trailersFlag = 0x80;
const endStreamFlag = 0x02;

/** A protocol whose calls are envelopes in both directions, over any HTTP version, and whose end is one of them too. */
export interface WebProtocol extends TimeoutRule {
  readonly protocol: Protocol;
  readonly contentType: string;
  readonly form: Form;
  readonly decode: RequestDecoder;
  /** Whether unary calls of this content type are envelopes, too. */
  readonly unary: boolean;
  /** The last envelope. */
  end(error: CallError | undefined, trailers: ReadonlyMap<string, string>): Buffer;
}

/** A message in JSON. @throws ProtocolError */
export const decodeJson: RequestDecoder = (method, bytes): MessageShape<Method["desc"]["input"]> => {
  try {
    const text = new TextDecoder().decode(bytes);
    return fromJsonString(method.desc.input, text, { registry: anyRegistry });
  } catch (thrown) {
    throw new ProtocolError("invalid_argument", thrown instanceof Error ? thrown.message : String(thrown));
  }
};

function grpcWebEnd(error: CallError | undefined, trailers: ReadonlyMap<string, string>): Buffer {
  const fields = [...trailers, ...Object.entries(error === undefined ? okTrailers : errorTrailers(error))];
  return envelope(trailersFlag, Buffer.from(fields.map(([name, value]) => `${name}: ${value}\r\n`).join(""), "latin1"));
}

function connectEnd(error: CallError | undefined, trailers: ReadonlyMap<string, string>): Buffer {
  const connectError = error === undefined ? undefined : asConnectError(error);
  const end = endStreamToJson(new Headers([...trailers]), connectError, jsonWriteOptions);
  return envelope(endStreamFlag, Buffer.from(JSON.stringify(end)));
}

/** The milliseconds of a `connect-timeout-ms` header, up to ten digits; undefined if it is none. */
export function parseConnectTimeout(text: string): number | undefined {
  return /^\d{1,10}$/.test(text) ? Number(text) : undefined;
}

const grpcWeb = {
  protocol: "grpc-web",
  form: binaryEnvelope,
  decode: decodeBinary,
  timeoutHeader: "grpc-timeout",
  timeoutName: "grpc",
  parseTimeout: parseGrpcTimeout,
  unary: true,
  end: grpcWebEnd,
} as const;

const connectStream = {
  protocol: "connect",
  timeoutHeader: "connect-timeout-ms",
  timeoutName: "connect",
  parseTimeout: parseConnectTimeout,
  unary: false,
  end: connectEnd,
} as const;

const grpcWebProto: WebProtocol = { ...grpcWeb, contentType: "application/grpc-web+proto" };
const connectProto: WebProtocol = {
  ...connectStream,
  contentType: "application/connect+proto",
  form: binaryEnvelope,
  decode: decodeBinary,
};
const connectJson: WebProtocol = {
  ...connectStream,
  contentType: "application/connect+json",
  form: jsonEnvelope,
  decode: decodeJson,
};

/** By the request's content type. */
export const webProtocols: ReadonlyMap<string, WebProtocol> = new Map([
  ["application/grpc-web", grpcWebProto],
  ["application/grpc-web+proto", grpcWebProto],
  ["application/connect+proto", connectProto],
  ["application/connect+json", connectJson],
]);
