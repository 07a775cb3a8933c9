import { fromBinary } from "@bufbuild/protobuf";
import { type BusEvent, BusEventSchema } from "../../gen/vega/events/v1/events_pb.js";

/** One frame of a recording. */
export interface Frame {
  readonly sequence: bigint;
  readonly event: BusEvent;
}

/** Takes whole frames apart. */
export function* frames(bytes: Uint8Array): Generator<Frame, void, undefined> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < bytes.length; ) {
    const length = view.getUint32(at);
    const event = fromBinary(BusEventSchema, bytes.subarray(at + 12, at + 4 + length));
    yield { sequence: view.getBigUint64(at + 4), event };
    at += 4 + length;
  }
}
