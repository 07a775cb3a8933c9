import { scaled, shortened } from "../format/decimal.js";
import { Observable, useObservable } from "../hooks/observable.js";

/** Whether long numbers are shown with all their digits. */
export const exactAmounts = new Observable(false);

interface AmountProps {
  /** An integer; undefined: there is none. */
  readonly value: string | bigint | undefined;
  /** Decimal places by which it is scaled. */
  readonly places?: number;
  /** Characters of a short one, at most. */
  readonly lengthMax?: number | undefined;
}

/** A scaled amount on one line. A long one is shortened; all digits are in its tooltip, and shown on demand. */
export function Amount({ value, places = 0, lengthMax }: AmountProps) {
  return <Digits exact={scaled(value, places)} lengthMax={lengthMax} />;
}

/** A decimal text as {@link Amount} shows it. */
export function Digits({ exact, lengthMax }: { readonly exact: string } & Pick<AmountProps, "lengthMax">) {
  const isExact = useObservable(exactAmounts, (value) => value);
  const text = isExact ? exact : shortened(exact, lengthMax);
  return (
    <span class={isExact ? "amount exact" : "amount"} title={text === exact ? undefined : exact}>
      {text}
    </span>
  );
}

/** The switch between short and exact amounts. */
export function ExactSwitch() {
  const isExact = useObservable(exactAmounts, (value) => value);
  return (
    <button type="button" aria-pressed={isExact} onClick={() => exactAmounts.set(!isExact)}>
      All digits
    </button>
  );
}
