import type { DateRange } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { invalidParameter, worded } from "./failure.js";

/** A range of block times in Unix nanoseconds: start inclusive, end exclusive; undefined: unbounded on that side. */
export interface TimeRange {
  readonly startNs: bigint | undefined;
  readonly endNs: bigint | undefined;
}

/** All time. */
export const always: TimeRange = { startNs: undefined, endNs: undefined };

/** Reads `dateRange`. A start equal to the end is an empty range. @throws Failure when the start is after the end */
export function readDateRange(range: DateRange | undefined): TimeRange {
  const startNs = range?.startTimestamp;
  const endNs = range?.endTimestamp;
  if (startNs !== undefined && endNs !== undefined && startNs > endNs) {
    throw worded(({ field }) => {
      const description = `is ${startNs}, after ${field("date_range.end_timestamp")}, which is ${endNs}`;
      return invalidParameter(field("date_range.start_timestamp"), description, "INVALID_DATE_RANGE");
    });
  }
  return { startNs, endNs };
}
