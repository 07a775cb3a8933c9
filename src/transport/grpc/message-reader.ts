import { ProtocolError } from "./protocol-error.js";

/** Bytes before each message: a flag byte and the length, big-endian. */
export const envelopeHeadBytes = 5;

const compressedFlag = 1;

/** Takes the chunks of a request body and gives its one message. */
export interface RequestReader {
  /** @throws ProtocolError as soon as the body cannot become right any more */
  push(chunk: Buffer): void;
  /** The message, once the body ended. @throws ProtocolError when there is none, or half of one */
  finish(): Buffer;
}

/**
 * Takes the chunks of a request body that must hold exactly one enveloped, uncompressed message, however they are cut.
 * Envelope: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md, "Length-Prefixed-Message".
 */
export class MessageReader implements RequestReader {
  readonly #bytesMax: number;
  readonly #kind: string;
  #first: Buffer | undefined;
  #rest: Buffer[] | undefined;
  #received = 0;
  /** Bytes of the envelope, head included; 0 while its head is incomplete. */
  #expected = 0;

  /** `kind` names the method's kind in errors: `unary`, `server-streaming`. */
  constructor(bytesMax: number, kind: string) {
    this.#bytesMax = bytesMax;
    this.#kind = kind;
  }

  push(chunk: Buffer): void {
    this.#received += chunk.length;
    if (this.#first === undefined) this.#first = chunk;
    else if (this.#rest === undefined) this.#rest = [chunk];
    else this.#rest.push(chunk);
    if (this.#expected === 0 && this.#received >= envelopeHeadBytes) this.#readHead();
    if (this.#expected !== 0 && this.#received > this.#expected) {
      throw new ProtocolError("unimplemented", `protocol error: received extra input message for ${this.#kind} method`);
    }
  }

  finish(): Buffer {
    if (this.#first === undefined) {
      throw new ProtocolError("unimplemented", `protocol error: missing input message for ${this.#kind} method`);
    }
    if (this.#expected === 0 || this.#received < this.#expected) {
      throw new ProtocolError("invalid_argument", "protocol error: incomplete envelope");
    }
    return this.#joined(this.#first).subarray(envelopeHeadBytes);
  }

  #joined(first: Buffer): Buffer {
    return this.#rest === undefined ? first : Buffer.concat([first, ...this.#rest], this.#received);
  }

  #readHead(): void {
    if (this.#first === undefined) return;
    const head = this.#joined(this.#first);
    const length = head.readUInt32BE(1);
    if (length > this.#bytesMax) {
      const message = `message size ${length} is larger than configured readMaxBytes ${this.#bytesMax}`;
      throw new ProtocolError("resource_exhausted", message);
    }
    if (((head[0] ?? 0) & compressedFlag) !== 0) {
      throw new ProtocolError("internal", "received compressed envelope, but do not know how to decompress");
    }
    this.#expected = envelopeHeadBytes + length;
  }
}
