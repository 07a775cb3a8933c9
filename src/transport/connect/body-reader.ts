import type { RequestReader } from "../grpc/message-reader.js";
import { ProtocolError } from "../grpc/protocol-error.js";

/** Takes a request body that is the message itself, without an envelope; an empty one is an empty message. */
export class BodyReader implements RequestReader {
  readonly #bytesMax: number;
  readonly #chunks: Buffer[] = [];
  #received = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  push(chunk: Buffer): void {
    this.#received += chunk.length;
    if (this.#received > this.#bytesMax) {
      const message = `message size ${this.#received} is larger than configured readMaxBytes ${this.#bytesMax}`;
      throw new ProtocolError("resource_exhausted", message);
    }
    this.#chunks.push(chunk);
  }

  finish(): Buffer {
    const [first] = this.#chunks;
    return first !== undefined && this.#chunks.length === 1 ? first : Buffer.concat(this.#chunks);
  }
}
