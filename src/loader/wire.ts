import { RecordingError } from "./recording-error.js";

/**
 * A reader of protobuf fields in place, for what is too frequent to become objects (docs: protobuf.dev,
 * "Encoding"). It is one object that moves along, so that a scan allocates nothing.
 */
export class WireReader {
  buffer: Buffer = Buffer.alloc(0);
  at = 0;
  end = 0;
  /** Of the field last read. */
  field = 0;
  wireType = 0;
  /** Where the bytes of a varint or length-delimited field begin; of the latter, where they end. */
  start = 0;
  stop = 0;
  /** Of a varint field: its value, rounded above 2^53. */
  value = 0;

  /** Starts reading at part of a buffer. */
  over(buffer: Buffer, start: number, end: number): this {
    this.buffer = buffer;
    this.at = start;
    this.end = end;
    return this;
  }

  /** Reads the next field; false: there is none. @throws RecordingError for bytes that are no protobuf */
  next(): boolean {
    if (this.at >= this.end) return false;
    const tag = this.#varint();
    this.field = Math.floor(tag / 8);
    this.wireType = tag & 7;
    if (this.wireType === 0) {
      this.start = this.at;
      this.value = this.#varint();
    } else if (this.wireType === 2) {
      const length = this.#varint();
      this.start = this.at;
      this.stop = this.at + length;
      this.at = this.stop;
    } else if (this.wireType === 1) {
      this.at += 8;
    } else if (this.wireType === 5) {
      this.at += 4;
    } else {
      throw malformed();
    }
    if (this.at > this.end || this.field === 0) throw malformed();
    return true;
  }

  #varint(): number {
    const buffer = this.buffer;
    let byte = buffer[this.at++] ?? 0;
    if (byte < 0x80) return byte;
    let value = byte & 0x7f;
    let factor = 128;
    for (let i = 1; i < 10; i++) {
      byte = buffer[this.at++] ?? 0x80;
      value += (byte & 0x7f) * factor;
      factor *= 128;
      if (byte < 0x80) return value;
    }
    throw malformed();
  }
}

/** The error for bytes that are no protobuf. */
export function malformed(): RecordingError {
  return new RecordingError("is not a protobuf message");
}

/** The value of an enum that was just read. int32 is sign-extended to 64 bits on the wire, which a number cannot hold. */
export function enumValue({ buffer, start, value }: WireReader): number {
  if (value <= 0x7fffffff) return value;
  let low = 0;
  for (let i = 0; i < 5; i++) low |= ((buffer[start + i] ?? 0) & 0x7f) << (7 * i);
  return low;
}
