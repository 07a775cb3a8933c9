import { instant } from "../../src/domain/instant.js";
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
