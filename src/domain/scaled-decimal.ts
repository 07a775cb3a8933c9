const decimal = /^(\d+)(?:\.(\d+))?$/;

/**
 * A decimal number as an integer scaled by 10^decimals, without leading zeros; undefined if it has more decimals than
 * that, trailing zeros not counted, or is no decimal number. `0.0250` with 4 decimals is `250`.
 */
export function scaleDecimal(text: string, decimals: number): string | undefined {
  const [, whole, fraction = ""] = decimal.exec(text) ?? [];
  if (whole === undefined || /[^0]/.test(fraction.slice(decimals))) return undefined;
  const digits = whole + fraction.slice(0, decimals).padEnd(decimals, "0");
  return digits.replace(/^0+(?=.)/, "");
}
