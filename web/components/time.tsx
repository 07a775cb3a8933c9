import { instant, nanoseconds } from "../../src/domain/instant.js";
import { useObservable } from "../hooks/observable.js";
import { exactAmounts } from "./amount.js";

/** Up to the milliseconds. */
const shortLength = 23;

/** A time on one line, to the millisecond. Its nanoseconds are in its tooltip, and shown on demand. */
export function Time({ at }: { readonly at: string }) {
  const isExact = useObservable(exactAmounts, (value) => value);
  const exact = instant(at);
  return (
    <span class="amount" title={exact}>
      {isExact ? exact : exact.slice(0, shortLength)}
    </span>
  );
}

/** Digits that are too few for nanoseconds of this century: most likely seconds or milliseconds. */
const shortNumber = /^[0-9]{1,15}$/;

/** Unix nanoseconds of a time that a reader gave. @throws {Error} at other text */
export function timeOf(text: string): string {
  const time = shortNumber.test(text) ? undefined : nanoseconds(text);
  if (time !== undefined) return time;
  throw new Error(`"${text}" is no time; one looks like 2024-01-31 12:00:00.5, in UTC, or has Unix nanoseconds`);
}
