import { isoInstant, nanoseconds } from "../../src/domain/instant.js";
import { cut, nameLengthMax, printable } from "./names.js";

/** The largest time that the API takes. */
const timeMaxNs = 2n ** 63n - 1n;
/** Digits that are too few for nanoseconds of this century: most likely seconds or milliseconds. */
const shortNumber = /^[0-9]{1,15}$/;

const quoted = (text: string) => `"${cut(printable(text), nameLengthMax)}"`;
const unread = (text: string) =>
  new Error(`${quoted(text)} is no time; one looks like 2024-01-31 12:00:00.5, in UTC, or has Unix nanoseconds`);

/**
 * Unix nanoseconds of a time in a link: UTC, or a number, which is nanoseconds as the API takes them.
 * @throws {Error} at other text, and at times that the API does not take
 */
export function linkedTime(text: string): string {
  const time = /^[0-9]+$/.test(text) ? text : nanoseconds(text);
  if (time === undefined) throw unread(text);
  if (BigInt(time) < 0n || BigInt(time) > timeMaxNs) {
    throw new Error(`${quoted(text)} is out of range: times are from 1970-01-01 to ${shortTime(timeMaxNs)}`);
  }
  return time;
}

/** The same of a time that a reader typed, whose short numbers are refused. @throws {Error} */
export function typedTime(text: string): string {
  if (shortNumber.test(text)) throw unread(text);
  return linkedTime(text);
}

/** A time to the minute, or as exactly as it is. */
export function shortTime(timeNs: bigint): string {
  return isoInstant(timeNs)
    .slice(0, -1)
    .replace("T", " ")
    .replace(/(:00)?\.?0*$/, "");
}
