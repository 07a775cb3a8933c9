import { RecordingError } from "./recording-error.js";

/** The longest frame, in bytes: what a single event may be. */
export const frameBytesMax = 64 * 1024 * 1024;

/** The 4 bytes of the length, and the 8 of the sequence number that it counts. */
const lengthBytes = 4;
const sequenceBytes = 8;

/** One event, still encoded. */
export interface Frame {
  /** Stream sequence number. */
  readonly sequence: bigint;
  /** `vega.events.v1.BusEvent`; only valid until the next chunk. */
  readonly body: Buffer;
}

/**
 * Takes a recording apart (docs/events.md, "The file"), whatever way its bytes were cut into chunks. Holds no more than
 * one frame and one chunk.
 */
export class FrameSplitter {
  #rest: Buffer = Buffer.alloc(0);
  /** Of the first byte of the rest, in the uncompressed recording. */
  #offset = 0;

  /** @param name of the source, for errors */
  constructor(readonly name: string) {}

  /** Bytes of whole frames so far. */
  get offset(): number {
    return this.#offset;
  }

  /** The frames that end in this chunk. Take all of them before the next chunk. @throws RecordingError */
  *frames(chunk: Uint8Array): Generator<Frame, void, undefined> {
    const piece = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const buffer = this.#rest.length === 0 ? piece : Buffer.concat([this.#rest, piece]);
    let at = 0;
    while (buffer.length - at >= lengthBytes) {
      const length = buffer.readUInt32BE(at);
      if (length < sequenceBytes || length > frameBytesMax) {
        throw new RecordingError(
          `${this.name}: the frame at byte ${this.#offset} says it has ${length} bytes; a frame has ${sequenceBytes} to ${frameBytesMax}`,
        );
      }
      const end = at + lengthBytes + length;
      if (end > buffer.length) break;
      const bodyAt = at + lengthBytes + sequenceBytes;
      this.#offset += end - at;
      yield { sequence: buffer.readBigUInt64BE(at + lengthBytes), body: buffer.subarray(bodyAt, end) };
      at = end;
    }
    // Copied, for the source may use the chunk's memory again.
    this.#rest = Buffer.from(buffer.subarray(at));
  }

  /** Nothing more comes. @throws RecordingError when half a frame is left */
  end(): void {
    if (this.#rest.length === 0) return;
    throw new RecordingError(
      `${this.name}: ends in the middle of a frame: the one at byte ${this.#offset} has only ${this.#rest.length} bytes of it there`,
    );
  }
}
