import { RecordingError } from "./recording-error.js";

/** The longest frame, in bytes: what a single event may be. */
export const frameBytesMax = 64 * 1024 * 1024;

/** The 4 bytes of the length, and the 8 of the sequence number that it counts. */
export const lengthBytes = 4;
export const sequenceBytes = 8;

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
  /** The beginning of a frame that has not ended yet: the first `#held` bytes of it. */
  #partial: Buffer = Buffer.alloc(0);
  #held = 0;
  /** Of the frame that comes next, in the uncompressed recording. */
  #offset = 0;

  /** @param name of the source, for errors */
  constructor(readonly name: string) {}

  /** The frames that end in this chunk. Take all of them before the next chunk. @throws RecordingError */
  *frames(chunk: Uint8Array): Generator<Frame, void, undefined> {
    const piece = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    let at = 0;
    if (this.#held > 0) {
      at = this.#hold(piece, 0, lengthBytes);
      if (this.#held < lengthBytes) return;
      const size = this.#sizeAt(this.#partial, 0);
      at = this.#hold(piece, at, size);
      if (this.#held < size) return;
      const whole = this.#partial;
      this.#partial = Buffer.alloc(0);
      this.#held = 0;
      this.#offset += size;
      yield frameAt(whole, 0, size);
    }
    while (piece.length - at >= lengthBytes) {
      const size = this.#sizeAt(piece, at);
      if (at + size > piece.length) break;
      this.#offset += size;
      yield frameAt(piece, at, size);
      at += size;
    }
    // Copied, for the source may use the chunk's memory again.
    this.#hold(piece, at, piece.length - at);
  }

  /** Nothing more comes. @throws RecordingError when half a frame is left */
  end(): void {
    if (this.#held === 0) return;
    throw new RecordingError(
      `${this.name}: ends in the middle of a frame: the one at byte ${this.#offset} has only ${this.#held} bytes of it there`,
    );
  }

  /** Takes bytes from the piece until `until` are held, or the piece ends. @returns the place in the piece after them */
  #hold(piece: Buffer, at: number, until: number): number {
    if (until > this.#partial.length) {
      const larger = Buffer.allocUnsafe(until);
      this.#partial.copy(larger, 0, 0, this.#held);
      this.#partial = larger;
    }
    const taken = Math.max(0, Math.min(until - this.#held, piece.length - at));
    piece.copy(this.#partial, this.#held, at, at + taken);
    this.#held += taken;
    return at + taken;
  }

  /** Bytes of the whole frame that begins there. */
  #sizeAt(buffer: Buffer, at: number): number {
    const length = buffer.readUInt32BE(at);
    if (length >= sequenceBytes && length <= frameBytesMax) return lengthBytes + length;
    throw new RecordingError(
      `${this.name}: the frame at byte ${this.#offset} says it has ${length} bytes; a frame has ${sequenceBytes} to ${frameBytesMax}`,
    );
  }
}

function frameAt(buffer: Buffer, at: number, size: number): Frame {
  const bodyAt = at + lengthBytes + sequenceBytes;
  return { sequence: buffer.readBigUInt64BE(at + lengthBytes), body: buffer.subarray(bodyAt, at + size) };
}
