import { invalidParameter, worded } from "../domain/failure.js";
import type { Moment } from "../store/history-reads.js";

/** The ways in which a request names a moment, and the fields in which it does. */
export interface MomentFields {
  readonly blockHeight?: bigint | undefined;
  readonly timestamp?: bigint | undefined;
  readonly streamSequence?: bigint | undefined;
}

const names = ["block_height", "timestamp", "stream_sequence"] as const;

/** Reads a moment; undefined: there is none. `prefix` is that of the fields. @throws Failure if there are several */
export function readMoment(fields: MomentFields, prefix = ""): Moment | undefined {
  const { blockHeight, timestamp, streamSequence } = fields;
  const [first, second] = [blockHeight, timestamp, streamSequence].flatMap((value, index) =>
    value === undefined ? [] : [`${prefix}${names[index]}`],
  );
  if (second !== undefined) throw refuseBoth(second, first ?? "");
  if (blockHeight !== undefined) return { height: blockHeight };
  if (timestamp !== undefined) return { timeNs: timestamp };
  return streamSequence === undefined ? undefined : { streamSequence };
}

/** Reads a moment that has to be there. @throws Failure unless there is exactly one */
export function requireMoment(fields: MomentFields): Moment {
  const moment = readMoment(fields);
  if (moment !== undefined) return moment;
  throw worded(({ field }) => {
    const [height, time, sequence] = names.map(field);
    return invalidParameter(height ?? "", `is missing; give this, ${time} or ${sequence}`, "INVALID_PLACE");
  });
}

/** INVALID_ARGUMENT for two fields of which one may be set. */
export function refuseBoth(name: string, other: string) {
  return worded(({ field }) =>
    invalidParameter(field(name), `cannot be combined with ${field(other)}; give one of them`, "INVALID_PLACE"),
  );
}
