import { isMessage } from "@bufbuild/protobuf";
import { HttpBodySchema } from "../../../gen/google/api/httpbody_pb.js";
import type { EncodedResponse, Encoding } from "../../domain/encoded-response.js";
import { MessageResponse } from "../../encoding/message-response.js";
import { type ContentCoding, compress, compressedBytesMin, compressedInlineBytesMax } from "./content-coding.js";

/** The bytes before each enveloped message: a flag byte and the length, big-endian. */
export const envelopeHeadBytes = 5;

/** The flag of an envelope whose message is compressed. */
export const compressedFlag = 0x01;

/** The codec of messages. */
export type Codec = "proto" | "json";

/**
 * Envelopes, which gRPC, gRPC-Web and Connect streams share.
 * https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md, "Length-Prefixed-Message".
 */
export function envelope(flags: number, bytes: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafeSlow(envelopeHeadBytes + bytes.length);
  framed[0] = flags;
  framed.writeUInt32BE(bytes.length, 1);
  framed.set(bytes, envelopeHeadBytes);
  return framed;
}

/** A response's bytes in a codec. */
export function encoded(response: EncodedResponse, codec: Codec): Uint8Array {
  if (codec === "proto") return response.binary();
  return response.schema.typeName === HttpBodySchema.typeName ? fileJson(response) : response.json();
}

/** Clients cannot read the JSON of an Any whose type they have not registered; headers and trailers tell the same. */
function fileJson(response: EncodedResponse): Uint8Array {
  const message = response.message();
  if (!isMessage(message, HttpBodySchema) || message.extensions.length === 0) return response.json();
  return new MessageResponse(HttpBodySchema, { ...message, extensions: [] }).json();
}

/** How the messages of a response are put into envelopes. */
export class Framing {
  readonly coding: ContentCoding | undefined;
  /** Small and very large messages are not compressed: a large one would delay all other streams. */
  readonly encoding: Encoding;
  readonly #codec: Codec;
  readonly #text: boolean;

  /** @param text base64, each envelope padded by itself, as in `application/grpc-web-text` */
  constructor(codec: Codec, coding: ContentCoding | undefined, text: boolean) {
    this.coding = coding;
    this.#codec = codec;
    this.#text = text;
    const name = [codec, "envelope", ...(coding === undefined ? [] : [coding]), ...(text ? ["base64"] : [])].join(" ");
    this.encoding = { name, encode: (response) => this.#message(encoded(response, codec)) };
  }

  /** One envelope. */
  frame(flags: number, bytes: Uint8Array): Buffer {
    const framed = envelope(flags, bytes);
    return this.#text ? Buffer.from(framed.toString("base64"), "latin1") : framed;
  }

  /** The envelope of a unary response; a promise if it is large and must be compressed. */
  whole(response: EncodedResponse): Uint8Array | Promise<Uint8Array> {
    const { coding } = this;
    if (coding === undefined) return response.encode(this.encoding);
    const bytes = encoded(response, this.#codec);
    if (bytes.length <= compressedInlineBytesMax) return response.encode(this.encoding);
    return Promise.resolve(compress(coding, bytes)).then((packed) => this.frame(compressedFlag, packed));
  }

  #message(bytes: Uint8Array): Buffer {
    const { coding } = this;
    if (coding === undefined || bytes.length < compressedBytesMin || bytes.length > compressedInlineBytesMax) {
      return this.frame(0, bytes);
    }
    const packed = compress(coding, bytes);
    return packed instanceof Promise ? this.frame(0, bytes) : this.frame(compressedFlag, packed);
  }
}

function framingsOf(codec: Codec, text: boolean) {
  return {
    identity: new Framing(codec, undefined, text),
    br: new Framing(codec, "br", text),
    gzip: new Framing(codec, "gzip", text),
  };
}

const binaryFramings = { proto: framingsOf("proto", false), json: framingsOf("json", false) };
const textFramings = { proto: framingsOf("proto", true), json: framingsOf("json", true) };

/** Returns the same object for the same parameters, so that responses keep framed bytes. */
export function framingOf(codec: Codec, coding?: ContentCoding, text = false): Framing {
  return (text ? textFramings : binaryFramings)[codec][coding ?? "identity"];
}
