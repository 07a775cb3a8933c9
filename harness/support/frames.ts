const headBytes = 12;

/** An event of a recording. */
export interface Frame {
  readonly sequence: bigint;
  /** A `BusEvent`. */
  readonly body: Uint8Array;
}

/** The events of bytes of a recording, which hold whole frames: `u32` length, `u64` stream sequence number, `BusEvent`. */
export function framesOf(bytes: Uint8Array): Frame[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const frames: Frame[] = [];
  for (let at = 0; at < bytes.byteLength; at += 4 + view.getUint32(at)) {
    frames.push({
      sequence: view.getBigUint64(at + 4),
      body: bytes.subarray(at + headBytes, at + 4 + view.getUint32(at)),
    });
  }
  return frames;
}

/** The bytes of a recording that hold these events. */
export function recordingOf(frames: readonly Frame[]): Buffer {
  const parts = frames.flatMap(({ sequence, body }) => {
    const head = Buffer.alloc(headBytes);
    head.writeUInt32BE(8 + body.length);
    head.writeBigUInt64BE(sequence, 4);
    return [head, body];
  });
  return Buffer.concat(parts);
}
