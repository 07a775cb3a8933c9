// Integers of any size as decimal text. They never become floating point.

/** Groups digits by three, from the right; an empty separator leaves them as they are. */
export function grouped(digits: string, separator: string): string {
  return separator === "" ? digits : digits.replace(/\B(?=(\d{3})+$)/g, separator);
}

/**
 * Puts a decimal point `places` from the end of an integer and groups the digits before it: `scaled("1234567", 2, ",")`
 * is `12,345.67`. Negative places append zeros.
 */
export function scaled(integer: string | bigint, places: number, separator: string): string {
  const text = String(integer);
  const sign = text.startsWith("-") ? "-" : "";
  const digits = text.slice(sign.length);
  if (places <= 0) return sign + grouped(digits === "0" ? digits : digits + "0".repeat(-places), separator);
  const padded = digits.padStart(places + 1, "0");
  return `${sign}${grouped(padded.slice(0, -places), separator)}.${padded.slice(-places)}`;
}
