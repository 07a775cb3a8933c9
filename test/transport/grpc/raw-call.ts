import { type ClientHttp2Session, connect, type IncomingHttpHeaders, type IncomingHttpStatusHeader } from "node:http2";
import { fromBinary } from "@bufbuild/protobuf";
import { StatusSchema } from "../../../gen/google/rpc/status_pb.js";
import { envelope } from "../../../src/transport/call/framing.js";

/** What a test sends, byte for byte. */
export interface RawCall {
  readonly path: string;
  /** Pieces of the body, each in a DATA frame of its own. */
  readonly body?: readonly Uint8Array[];
  /** Beside those of a plain gRPC call; undefined takes one away. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
  /** Leaves the body open. */
  readonly open?: boolean;
}

/** What came back. */
export interface RawOutcome {
  readonly headers: IncomingHttpHeaders & IncomingHttpStatusHeader;
  readonly messages: readonly Buffer[];
  readonly trailers: IncomingHttpHeaders;
  readonly resetCode: number | undefined;
}

/** Runs one call on a session of its own. */
export async function rawCall(port: number, call: RawCall): Promise<RawOutcome> {
  const session = connect(`http://127.0.0.1:${port}`);
  session.on("error", () => {});
  try {
    return await rawCallOn(session, call);
  } finally {
    session.destroy();
  }
}

/** Runs one call on a session. */
export function rawCallOn(session: ClientHttp2Session, call: RawCall): Promise<RawOutcome> {
  const headers: Record<string, string> = { ":method": "POST", ":path": call.path };
  const sent = { "content-type": "application/grpc+proto", te: "trailers", ...call.headers };
  for (const [name, value] of Object.entries(sent)) if (value !== undefined) headers[name] = value;
  const stream = session.request(headers);
  return new Promise((resolve) => {
    let answered: IncomingHttpHeaders & IncomingHttpStatusHeader = {};
    let trailers: IncomingHttpHeaders = {};
    const chunks: Buffer[] = [];
    stream.on("response", (received) => {
      answered = received;
    });
    stream.on("trailers", (received) => {
      trailers = received;
    });
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("error", () => {});
    stream.on("close", () => {
      const resetCode = stream.rstCode === 0 ? undefined : stream.rstCode;
      resolve({ headers: answered, messages: splitEnvelopes(Buffer.concat(chunks)), trailers, resetCode });
    });
    for (const piece of call.body ?? []) stream.write(piece);
    if (call.open !== true) stream.end();
  });
}

/** The messages in a body of envelopes, heads taken off. */
export function splitEnvelopes(bytes: Buffer): Buffer[] {
  const messages: Buffer[] = [];
  for (let at = 0; at + 5 <= bytes.length; ) {
    const end = at + 5 + bytes.readUInt32BE(at + 1);
    messages.push(bytes.subarray(at + 5, end));
    at = end;
  }
  return messages;
}

/** Bytes cut into pieces of `size`. */
export function pieces(bytes: Uint8Array, size: number): Uint8Array[] {
  const cut: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += size) cut.push(bytes.subarray(at, at + size));
  return cut;
}

/** What a gRPC client makes of an outcome: status, message and details from the trailers, or from headers alone. */
export function grpcOutcome(outcome: RawOutcome) {
  const last = outcome.trailers["grpc-status"] === undefined ? outcome.headers : outcome.trailers;
  const bin = last["grpc-status-details-bin"];
  const status = typeof bin === "string" ? fromBinary(StatusSchema, Buffer.from(bin, "base64")) : undefined;
  const header = (name: string): string | undefined => {
    const value = last[name];
    return typeof value === "string" ? value : undefined;
  };
  return {
    http: outcome.headers[":status"],
    contentType: outcome.headers["content-type"],
    status: header("grpc-status"),
    message: decodeURIComponent(header("grpc-message") ?? ""),
    details: status?.details.map((detail) => detail.typeUrl),
    statusCode: status?.code,
    statusMessage: status?.message,
    metadata: outcome.headers["x-first"],
    trailer: outcome.trailers["x-last"],
    messages: outcome.messages.map((message) => message.toString("hex")),
    resetCode: outcome.resetCode,
  };
}

export { envelope };
