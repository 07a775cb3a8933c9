import { RecordingError } from "./recording-error.js";

/** The longest frame, in bytes. */
export const frameBytesMax = 64 * 1024 * 1024;

/** The 4 bytes of the length, and the 8 bytes of the sequence number, which the length includes. */
export const lengthBytes = 4;
export const sequenceBytes = 8;

/** One event, still encoded. */
export interface Frame {
  /** Stream sequence number. */
  readonly sequence: bigint;
  /** `vega.events.v1.BusEvent`; only valid until the next chunk. */
  readonly body: Buffer;
}

/** Whether these bytes are one or more frames, and no part of one. */
export function areWholeFrames(bytes: Buffer): boolean {
  let at = 0;
  while (bytes.length - at >= lengthBytes) {
    const length = bytes.readUInt32BE(at);
    if (length < sequenceBytes || length > frameBytesMax) return false;
    at += lengthBytes + length;
  }
  return at === bytes.length;
}

/**
 * Splits a recording into frames (docs/events.md, "The file"), from chunks of any size. It holds at most one frame and
 * one chunk.
 */
export class FrameSplitter {
  /** The start of an incomplete frame: its first `#held` bytes. */
  #partial: Buffer = Buffer.alloc(0);
  #held = 0;
  /** The position of the next frame in the uncompressed recording. */
  #offset = 0;

  /** @param name of the source, for errors */
  constructor(readonly name: string) {}

  /** The frames that end in this chunk. Process all of them before the next chunk. @throws RecordingError */
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
    // Copied, because the source may reuse the chunk's memory.
    this.#hold(piece, at, piece.length - at);
  }

  /** The input has ended. @throws RecordingError if half a frame is left */
  end(): void {
    if (this.#held === 0) return;
    throw new RecordingError(
      `${this.name}: ends in the middle of a frame: the one at byte ${this.#offset} has only ${this.#held} bytes of it there`,
    );
  }

  /** Copies bytes of the piece until `until` are held or the piece ends. @returns the position after them */
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

  /** The size of the frame that starts there, in bytes. */
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
