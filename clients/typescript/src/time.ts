/** A time: in Unix nanoseconds, or a `Date`, which holds milliseconds alone. */
export type Time = bigint | Date;

/** A time in Unix nanoseconds. @throws RangeError if 64 bits do not hold it */
export function nanosecondsOf(time: Time): bigint {
  const ns = typeof time === "bigint" ? time : BigInt(time.getTime()) * 1_000_000n;
  if (BigInt.asIntN(64, ns) !== ns) throw new RangeError(`${ns} ns is no time that 64 bits hold`);
  return ns;
}
