import { fromBinary, fromJsonString, type MessageShape, type Registry } from "@bufbuild/protobuf";
import { HttpBodySchema } from "../../../gen/google/api/httpbody_pb.js";
import type { Codec, CompressedBytes, EncodedResponse, Encoding } from "../../domain/encoded-response.js";
import { type Failure, repeated } from "../../domain/failure.js";
import type { Method } from "../../domain/service.js";
import { thrownText } from "../../domain/thrown-text.js";
import { encodeJson, readableInJson } from "../../encoding/json-encoder.js";
import { protocolFailure } from "../errors.js";
import {
  type ContentCoding,
  compress,
  compressedBytesMin,
  compressedInlineBytesMax,
  decompress,
} from "./content-coding.js";

/** The bytes before each enveloped message: a flag byte and the length, big-endian. */
export const envelopeHeadBytes = 5;

/** The flag of an envelope whose message is compressed. */
const compressedFlag = 0x01;

/**
 * Envelopes, which gRPC, gRPC-Web and Connect streams share.
 * https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md, "Length-Prefixed-Message".
 */
export function envelope(flags: number, bytes: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafeSlow(envelopeHeadBytes + bytes.length);
  framed.set(bytes, envelopeHeadBytes);
  return withHead(framed, flags);
}

/** Writes the head of an envelope before its message. */
function withHead(framed: Buffer, flags: number): Buffer {
  framed[0] = flags;
  framed.writeUInt32BE(framed.length - envelopeHeadBytes, 1);
  return framed;
}

/** A response's bytes in a codec. */
export function encoded(response: EncodedResponse, codec: Codec): Uint8Array {
  if (codec === "proto") return response.binary();
  return response.schema.typeName === HttpBodySchema.typeName ? fileJson(response) : response.json();
}

function fileJson(response: EncodedResponse): Uint8Array {
  const message = response.message();
  const readable = readableInJson(message);
  return readable === message ? response.json() : Buffer.from(encodeJson(response.schema, readable));
}

/** The body of a response without envelopes, plain and in each content coding. */
export interface BodyEncoding extends Readonly<Record<ContentCoding, Encoding<CompressedBytes>>> {
  plain(response: EncodedResponse): Uint8Array;
}

/** Make it once: responses cache their compressed bytes under its encodings. */
export function bodyEncoding(plain: BodyEncoding["plain"]): BodyEncoding {
  const compressed = (coding: ContentCoding): Encoding<CompressedBytes> => {
    return { encode: (response) => compress(coding, plain(response)) };
  };
  return { plain, br: compressed("br"), gzip: compressed("gzip") };
}

/** The bodies that are a message. */
export const messageBodies: Readonly<Record<Codec, BodyEncoding>> = {
  proto: bodyEncoding((response) => encoded(response, "proto")),
  json: bodyEncoding((response) => encoded(response, "json")),
};

/** How the messages of a response are put into envelopes. */
export class Framing {
  /** For the messages of streams. Very large ones are not compressed: each would delay all other streams. */
  readonly encoding: Encoding;
  /** For unary responses: a promise if the response is large and must be compressed. */
  readonly whole: Encoding<CompressedBytes>;

  constructor(
    private readonly codec: Codec,
    readonly coding: ContentCoding | undefined,
    /** Base64, each envelope padded by itself, as in `application/grpc-web-text`. */
    private readonly text: boolean,
  ) {
    const isPlain = codec === "proto" && coding === undefined && !text;
    const encode: Encoding["encode"] = isPlain
      ? (response) => withHead(response.binaryBehind(envelopeHeadBytes), 0)
      : (response) => this.#message(encoded(response, codec));
    this.encoding = { encode };
    this.whole = coding === undefined ? this.encoding : { encode: (response) => this.#whole(response, coding) };
  }

  /** One envelope. */
  frame(flags: number, bytes: Uint8Array): Buffer {
    const framed = envelope(flags, bytes);
    return this.text ? Buffer.from(framed.toString("base64"), "latin1") : framed;
  }

  #whole(response: EncodedResponse, coding: ContentCoding): CompressedBytes {
    const bytes = encoded(response, this.codec);
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

/** Decodes a request message. @throws anything if the bytes are malformed */
export type RequestDecoder = (method: Method, bytes: Buffer) => MessageShape<Method["desc"]["input"]>;

/** Protobuf bytes. @throws Failure */
export const decodeBinary: RequestDecoder = (method, bytes) => {
  try {
    return fromBinary(method.desc.input, bytes);
  } catch (thrown) {
    throw malformed(repeated(`parse binary: ${thrownText(thrown)}`));
  }
};

/** Decodes JSON, with the registry's messages in an Any. Throws Failure. */
export function jsonDecoder(registry: Registry): RequestDecoder {
  return (method, bytes) => {
    try {
      const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
      return fromJsonString(method.desc.input, text, { registry });
    } catch (thrown) {
      throw malformed(repeated(thrownText(thrown)));
    }
  };
}

function notBase64(): Failure {
  return malformed("protocol error: the body is not base64");
}

function malformed(message: string): Failure {
  return protocolFailure("invalid_argument", message);
}

/** A message as it arrived, to be read by {@link messageOf}. Its bytes are those of the chunk. */
export interface ArrivedMessage {
  readonly bytes: Buffer;
  readonly compressed: boolean;
}

/** Receives the chunks of a request body, and passes on each message that is complete. */
export interface RequestReader {
  /** @throws Failure as soon as the body is certain to be invalid */
  push(chunk: Buffer): void;
  /** The body has ended. @throws Failure if its last message is incomplete */
  finish(): void;
}

/** How the body of a request is read. */
export interface RequestReading {
  /** Of a message, both compressed and decompressed. */
  readonly bytesMax: number;
  readonly coding: ContentCoding | undefined;
  readonly decode: RequestDecoder;
  /** Whether messages are in envelopes. If not, the body is one message, and an empty body an empty message. */
  readonly enveloped: boolean;
  /** Whether the body is base64. */
  readonly text: boolean;
}

/** `arrived` may throw: the body is then invalid. */
export function requestReader(reading: RequestReading, arrived: (message: ArrivedMessage) => void): RequestReader {
  if (!reading.enveloped) return new BodyReader(reading, arrived);
  const reader = new EnvelopeReader(reading, arrived);
  return reading.text ? new TextEnvelopeReader(reader) : reader;
}

/** Reads a body of any number of enveloped messages. */
class EnvelopeReader implements RequestReader {
  #chunks: Buffer[] = [];
  #received = 0;
  /** Bytes to receive before the next step: a head, or a whole envelope. */
  #expected = envelopeHeadBytes;

  constructor(
    private readonly reading: RequestReading,
    private readonly arrived: (message: ArrivedMessage) => void,
  ) {}

  push(chunk: Buffer): void {
    this.#chunks = withPiece(this.#chunks, chunk);
    this.#received += chunk.length;
    if (this.#received < this.#expected) return;
    let bytes = joined(this.#chunks);
    while (bytes.length >= this.#expected) {
      this.#expected = envelopeHeadBytes + lengthIn(bytes, this.reading);
      if (bytes.length < this.#expected) break;
      const message = bytes.subarray(envelopeHeadBytes, this.#expected);
      this.arrived({ bytes: message, compressed: isCompressed(bytes) });
      bytes = bytes.subarray(this.#expected);
      this.#expected = envelopeHeadBytes;
    }
    this.#chunks = bytes.length === 0 ? [] : [bytes];
    this.#received = bytes.length;
  }

  finish(): void {
    if (this.#received > 0) throw malformed("protocol error: incomplete envelope");
  }
}

/** Pieces of a body that are kept apart. A client may send single bytes, and each piece keeps what it arrived in. */
const piecesMax = 256;

function withPiece(chunks: Buffer[], chunk: Buffer): Buffer[] {
  chunks.push(chunk);
  return chunks.length < piecesMax ? chunks : [Buffer.concat(chunks)];
}

function joined(chunks: readonly Buffer[]): Buffer {
  const [first] = chunks;
  return first !== undefined && chunks.length === 1 ? first : Buffer.concat(chunks);
}

/** The length of the message behind the head of an envelope. @throws Failure if it cannot be read */
function lengthIn(head: Buffer, { bytesMax, coding }: RequestReading): number {
  const length = head.readUInt32BE(1);
  if (length > bytesMax) throw tooLarge(`message size ${length} is larger than configured readMaxBytes ${bytesMax}`);
  // The end of a stream, or trailers: a server sends those.
  if ((head[0] ?? 0) > compressedFlag) throw malformed(`protocol error: a request's envelope has the flags ${head[0]}`);
  if (isCompressed(head) && coding === undefined) {
    throw protocolFailure("internal", "received compressed envelope, but do not know how to decompress");
  }
  return length;
}

function isCompressed(head: Buffer): boolean {
  return ((head[0] ?? 0) & compressedFlag) !== 0;
}

/** Reads a base64 body whose parts may be padded separately (`application/grpc-web-text`). */
class TextEnvelopeReader implements RequestReader {
  /** Characters of an incomplete group of four. */
  #rest = "";

  constructor(private readonly inner: RequestReader) {}

  push(chunk: Buffer): void {
    const text = this.#rest + chunk.toString("latin1");
    const whole = text.length - (text.length % 4);
    this.#rest = text.slice(whole);
    const parts = text.slice(0, whole).match(/[A-Za-z0-9+/]+={0,2}/g) ?? [];
    const length = parts.reduce((sum, part) => sum + (part.length % 4 === 0 ? part.length : 0), 0);
    if (length !== whole) throw notBase64();
    for (const part of parts) this.inner.push(Buffer.from(part, "base64"));
  }

  finish(): void {
    if (this.#rest !== "") throw notBase64();
    this.inner.finish();
  }
}

/** Reads a body that is the message itself. */
class BodyReader implements RequestReader {
  #chunks: Buffer[] = [];
  #received = 0;

  constructor(
    private readonly reading: RequestReading,
    private readonly arrived: (message: ArrivedMessage) => void,
  ) {}

  push(chunk: Buffer): void {
    this.#received += chunk.length;
    const { bytesMax } = this.reading;
    if (this.#received > bytesMax) {
      throw tooLarge(`message size ${this.#received} is larger than configured readMaxBytes ${bytesMax}`);
    }
    this.#chunks = withPiece(this.#chunks, chunk);
  }

  finish(): void {
    this.arrived({ bytes: joined(this.#chunks), compressed: this.reading.coding !== undefined });
  }
}

/** The bytes of a message that arrived. @throws Failure if they are not compressed as announced */
export function messageOf({ bytes, compressed }: ArrivedMessage, { coding, bytesMax }: RequestReading): Buffer {
  if (!compressed || coding === undefined) return bytes;
  try {
    return decompress(coding, bytes, bytesMax);
  } catch (thrown) {
    if (thrown instanceof RangeError) {
      throw tooLarge(`message is larger than configured readMaxBytes ${bytesMax} after decompression`);
    }
    throw malformed(`the message is not in ${coding}, as announced`);
  }
}

function tooLarge(message: string): Failure {
  return protocolFailure("resource_exhausted", message);
}

/** Requests that are remembered per method. When full, all are dropped. */
export const rememberedRequestsMax = 1_024;

/** Larger requests are decoded each time. */
export const rememberedRequestBytesMax = 256;

/**
 * Returns the same message for the same request bytes. Clients that poll repeat few requests, and decoding a request
 * costs more than a cached response. Messages are frozen because calls share them.
 */
export function rememberingRequests(decode: RequestDecoder): RequestDecoder {
  const remembered = new Map<string, ReturnType<RequestDecoder>>();
  return (method, bytes) => {
    if (bytes.length > rememberedRequestBytesMax) return decode(method, bytes);
    const key = bytes.toString("latin1");
    const known = remembered.get(key);
    if (known !== undefined) return known;
    // Decoded from a copy: a message may refer to the bytes that it was read from, which are the socket's buffer.
    const message = Object.freeze(decode(method, Buffer.from(Uint8Array.from(bytes).buffer)));
    if (remembered.size === rememberedRequestsMax) remembered.clear();
    remembered.set(key, message);
    return message;
  };
}
