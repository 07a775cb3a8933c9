import { request as httpRequest, type IncomingHttpHeaders, type RequestOptions } from "node:http";
import { gunzipSync } from "node:zlib";
import { codeFromString } from "@connectrpc/connect/protocol-connect";
import { rawCall } from "../transport/grpc/raw-call.js";

/** A protocol with the way in which its messages are written. */
export interface RpcVariant {
  readonly protocol: "connect" | "connect-get" | "connect-stream" | "grpc-web" | "grpc";
  readonly contentType: string;
  /** Whether a message stands in an envelope. */
  readonly enveloped: boolean;
  readonly json: boolean;
  /** The header, or parameter, that names how a message is compressed. */
  readonly encodingName: string;
  readonly timeoutName: string;
}

const connect = { encodingName: "content-encoding", timeoutName: "connect-timeout-ms", enveloped: false } as const;
const connectStream = { encodingName: "connect-content-encoding", timeoutName: "connect-timeout-ms" } as const;
const grpc = { encodingName: "grpc-encoding", timeoutName: "grpc-timeout", enveloped: true } as const;

/** Every form in which a call of one request can come. */
export const rpcVariants: readonly RpcVariant[] = [
  { ...connect, protocol: "connect", contentType: "application/json", json: true },
  { ...connect, protocol: "connect", contentType: "application/json; charset=utf-8", json: true },
  { ...connect, protocol: "connect", contentType: "application/proto", json: false },
  { ...connect, protocol: "connect-get", contentType: "json", json: true, encodingName: "compression" },
  { ...connect, protocol: "connect-get", contentType: "proto", json: false, encodingName: "compression" },
  {
    ...connectStream,
    protocol: "connect-stream",
    contentType: "application/connect+json",
    json: true,
    enveloped: true,
  },
  {
    ...connectStream,
    protocol: "connect-stream",
    contentType: "application/connect+proto",
    json: false,
    enveloped: true,
  },
  { ...grpc, protocol: "grpc-web", contentType: "application/grpc-web+proto", json: false },
  { ...grpc, protocol: "grpc-web", contentType: "application/grpc-web+json", json: true },
  { ...grpc, protocol: "grpc-web", contentType: "application/grpc-web-text", json: false },
  { ...grpc, protocol: "grpc", contentType: "application/grpc+proto", json: false },
  { ...grpc, protocol: "grpc", contentType: "application/grpc+json", json: true },
];

/** How a call ended. */
export interface RpcOutcome {
  readonly httpStatus: number;
  /** The gRPC code, 0 for OK; undefined: the response says none. */
  readonly code: number | undefined;
  readonly headers: Fields;
  /** Wherever the protocol puts them. */
  readonly trailers: Fields;
}

type Fields = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Sends `body`, whatever it is, as a call of this form. */
export async function sendBytes(
  port: number,
  { protocol, contentType }: RpcVariant,
  path: string,
  body: Buffer,
  headers: Readonly<Record<string, string>>,
): Promise<RpcOutcome> {
  if (protocol === "grpc") {
    const outcome = await rawCall(port, { path, body: [body], headers: { "content-type": contentType, ...headers } });
    const status = outcome.trailers["grpc-status"] ?? outcome.headers["grpc-status"];
    const trailers = outcome.trailers["grpc-status"] === undefined ? outcome.headers : outcome.trailers;
    const code = status === undefined ? undefined : Number(status);
    return { httpStatus: Number(outcome.headers[":status"]), code, headers: outcome.headers, trailers };
  }
  const sent =
    protocol === "connect-get"
      ? { method: "GET", path: `${path}?${getQuery(contentType, body, headers)}`, headers }
      : { method: "POST", path, headers: { "content-type": contentType, ...headers } };
  const isText = contentType.startsWith("application/grpc-web-text");
  const sentBody = isText ? Buffer.from(body.toString("base64")) : body;
  const received = await exchange({ host: "127.0.0.1", port, ...sent }, sent.method, sentBody);
  const response = isText ? { ...received, bytes: fromText(received.bytes) } : received;
  return { httpStatus: response.status, headers: response.headers, ...endOf(protocol, response) };
}

/** The bytes of base64 whose parts each have padding of their own. */
export function fromText(text: Buffer): Buffer {
  const groups = text.toString("latin1").match(/[^=]{1,4}=*/g) ?? [];
  return Buffer.concat(groups.map((group) => Buffer.from(group, "base64")));
}

function getQuery(encoding: string, body: Buffer, { compression }: Readonly<Record<string, string>>): URLSearchParams {
  const message = { connect: "v1", encoding, base64: "1", message: body.toString("base64url") };
  return new URLSearchParams(compression === undefined ? message : { ...message, compression });
}

interface Response {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
}

function exchange(options: RequestOptions, method: string, body: Buffer): Promise<Response> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest(options, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        resolve({ status: response.statusCode ?? 0, headers: response.headers, bytes: Buffer.concat(chunks) });
      });
    });
    sent.on("error", reject);
    sent.end(method === "GET" ? undefined : body);
  });
}

function endOf(protocol: RpcVariant["protocol"], response: Response): Pick<RpcOutcome, "code" | "trailers"> {
  const { status, headers, bytes } = response;
  if (protocol === "grpc-web") {
    const lines = lastEnvelope(bytes)
      .toString("latin1")
      .matchAll(/^([^:\r\n]+): ([^\r\n]*)\r$/gm);
    const last: Fields = Object.fromEntries([...lines].map(([, name = "", value]) => [name, value]));
    const trailers = headers["grpc-status"] === undefined ? last : headers;
    return { code: trailers["grpc-status"] === undefined ? undefined : Number(trailers["grpc-status"]), trailers };
  }
  if (protocol === "connect-stream") {
    if (status !== 200) return { code: undefined, trailers: {} };
    const { error, metadata } = JSON.parse(lastEnvelope(bytes).toString());
    return { code: error === undefined ? 0 : codeFromString(error.code), trailers: joined(metadata ?? {}) };
  }
  const prefixed = Object.entries(headers).filter(([name]) => name.startsWith("trailer-"));
  const trailers = Object.fromEntries(prefixed.map(([name, value]) => [name.slice("trailer-".length), value]));
  if (status === 200) return { code: 0, trailers };
  return { code: bytes.length === 0 ? undefined : codeFromString(JSON.parse(bytes.toString()).code), trailers };
}

function joined(metadata: Readonly<Record<string, readonly string[]>>): Fields {
  return Object.fromEntries(Object.entries(metadata).map(([name, values]) => [name, values.join(", ")]));
}

/** The data of the last envelope: trailers, or the end of a stream. */
function lastEnvelope(bytes: Buffer): Buffer {
  let rest = bytes;
  while (rest.length >= 5) {
    const end = 5 + rest.readUInt32BE(1);
    if (end >= rest.length) return (rest[0] ?? 0) & 1 ? gunzipSync(rest.subarray(5)) : rest.subarray(5);
    rest = rest.subarray(end);
  }
  return rest;
}
