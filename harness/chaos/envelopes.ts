import { CallFailure, failureFromJson, failureFromStatus } from "./call-failure.js";

const compressedFlag = 0x01;
const connectEndFlag = 0x02;
const webTrailersFlag = 0x80;
const headBytes = 5;

/** A message in the envelope of gRPC, gRPC-Web and Connect streams. */
export function envelope(message: Uint8Array): Buffer {
  const head = Buffer.alloc(headBytes);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/** The messages of a gRPC-Web or Connect stream. @throws CallFailure for its error, or where its end is missing */
export async function* unwrap(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  let held = Buffer.alloc(0);
  for await (const chunk of chunks) {
    held = Buffer.concat([held, chunk]);
    while (held.length >= headBytes && held.length >= headBytes + held.readUInt32BE(1)) {
      const flags = held[0] ?? 0;
      const message = held.subarray(headBytes, headBytes + held.readUInt32BE(1));
      held = held.subarray(headBytes + message.length);
      if ((flags & compressedFlag) !== 0) throw new CallFailure("malformed", "compressed without being asked");
      if (flags === 0) yield message;
      else if (flags === connectEndFlag) return endOfConnect(message);
      else if (flags === webTrailersFlag) return endOfWeb(message.toString("latin1"));
    }
  }
  throw new CallFailure("broken", "the stream has no end");
}

function endOfConnect(message: Buffer): void {
  const { error } = JSON.parse(message.toString()) as { error?: unknown };
  if (error !== undefined) throw failureFromJson(error, "the end of a Connect stream");
}

function endOfWeb(text: string): void {
  const fields = new Map<string, string>();
  for (const line of text.split("\r\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) fields.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
  }
  throwStatus((name) => fields.get(name));
}

/** @throws CallFailure unless `grpc-status` is 0; gRPC-Web has it in its trailers, or in its headers if there is no body */
export function throwStatus(field: (name: string) => string | undefined): void {
  const code = field("grpc-status");
  if (code === undefined) throw new CallFailure("malformed", "no grpc-status");
  if (code === "0") return;
  const details = field("grpc-status-details-bin");
  const message = decodeURIComponent(field("grpc-message") ?? "");
  throw failureFromStatus(Number(code), message, details === undefined ? undefined : Buffer.from(details, "base64"));
}
