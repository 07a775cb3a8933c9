/** A time: in Unix nanoseconds, or a `Date`, which holds milliseconds alone. */
export type Time = bigint | Date;

/** A time in Unix nanoseconds. */
export function nanosecondsOf(time: Time): bigint {
  return typeof time === "bigint" ? time : BigInt(time.getTime()) * 1_000_000n;
}
