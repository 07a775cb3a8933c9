import type { Form } from "../../domain/answer.js";
import { envelopeHeadBytes } from "./message-reader.js";

/** Bytes in an envelope: flag byte, length, the bytes themselves. gRPC, gRPC-Web and Connect streams share it. */
export function envelope(flags: number, bytes: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafeSlow(envelopeHeadBytes + bytes.length);
  framed[0] = flags;
  framed.writeUInt32BE(bytes.length, 1);
  framed.set(bytes, envelopeHeadBytes);
  return framed;
}

/** An answer's protobuf in an envelope: a message of gRPC, gRPC-Web and binary Connect streams. */
export const binaryEnvelope: Form = { name: "binary envelope", encode: (answer) => envelope(0, answer.binary()) };

/** An answer's JSON in an envelope: a message of Connect streams in JSON. */
export const jsonEnvelope: Form = { name: "json envelope", encode: (answer) => envelope(0, answer.json()) };
