// Integers of any size, as the service sends them: text. They become floating point for drawing only.
import * as decimalText from "../../src/domain/decimal-text.js";

/** Narrow and non-breaking: a number never breaks over lines. */
const groupSeparator = "\u202f";

/** Decimal places of a market's prices and sizes. */
export interface Places {
  readonly price: number;
  readonly size: number;
}

/** What is shown for a value that does not exist. */
export const missing = "–";

/** Groups digits by three. */
export function grouped(digits: string): string {
  return decimalText.grouped(digits, groupSeparator);
}

/** Puts a decimal point `places` from the end of an integer and groups its digits; negative places append zeros. */
export function scaled(integer: string | bigint | undefined, places = 0): string {
  return integer === undefined || integer === "" ? missing : decimalText.scaled(integer, places, groupSeparator);
}

/** Longer numbers are shortened where space is short. */
const shortLengthMax = 19;
/** The same of sizes, two of which have to fit beside a price on a telephone. */
export const sizeLengthMax = 16;
/** Of a number that is written as a power of ten, as one is of which fewer would be left. */
const significantDigits = 6;

/**
 * A scaled number in at most 19 characters, enough for a price of six digits with ten decimals; with a smaller
 * `lengthMax`, in about as many. A long fraction is cut (`1.234 5…`), a long integer becomes its first digits and a power
 * of ten (`1.23456…e45`). Cut and not rounded, so that every digit shown is right.
 */
export function shortened(exact: string, lengthMax = shortLengthMax): string {
  const [integer = "", fraction] = exact.split(".");
  const fractionless = fraction === undefined || integer.length >= shortLengthMax - 3;
  const charactersMax = fractionless ? shortLengthMax : Math.max(lengthMax, integer.length + 3);
  if (exact.length <= charactersMax) return exact;
  if (!fractionless) {
    const shown = fraction.slice(0, charactersMax - integer.length - 2);
    return isHidden(integer + shown) ? small(integer, fraction) : `${integer}.${shown}…`;
  }
  const sign = integer.startsWith("-") ? "-" : "";
  const digits = integer.slice(sign.length).replaceAll(groupSeparator, "");
  return `${sign}${digits[0]}.${digits.slice(1, significantDigits)}…e${digits.length - 1}`;
}

/** Whether zeros take the place of the digits that tell a number from others. */
function isHidden(shown: string): boolean {
  return shown.replace(/^[-0]+/, "").length < significantDigits;
}

/** A number below one by its first digits and a power of ten: `1.23456…e-24`, or `1e-30` where these are all. */
function small(integer: string, fraction: string): string {
  const digits = fraction.replace(/^0+/, "");
  if (digits === "") return integer;
  const first = digits.slice(0, significantDigits).replace(/^(.)(?=.)/, "$1.");
  const rest = digits.length > significantDigits ? "…" : "";
  return `${integer.replace("0", "")}${first}${rest}e-${fraction.length - digits.length + 1}`;
}

/** For drawing only: the nearest floating-point number of a scaled integer. */
export function approximate(integer: string | bigint, places: number): number {
  return Number(integer) / 10 ** places;
}

/** Charts have no axis for numbers of more than 17 decimals: smaller prices than this many are drawn in a unit of theirs. */
const drawnDecimalsMax = 6;

/** The decimals by which prices near this one are multiplied where they are drawn: 0, or those that make it 1 to 10. */
export function drawnDecimals(price: string | undefined, places: number): number {
  const zeros = price === undefined ? 0 : places - price.length;
  return zeros < drawnDecimalsMax ? 0 : zeros + 1;
}

/** What a chart says of {@link drawnDecimals}. */
export const drawnUnit = (decimals: number, values = "Prices"): string =>
  decimals === 0 ? "" : ` ${values} in units of 1e-${decimals}.`;

/** A ratio of two integers as a percentage with two decimals and its sign: `+1.25 %`. */
export function percentage(part: bigint, whole: bigint): string {
  if (whole === 0n) return missing;
  const hundredths = (part * 10_000n) / whole;
  const sign = hundredths > 0n ? "+" : hundredths < 0n ? "−" : "";
  const digits = String(hundredths < 0n ? -hundredths : hundredths).padStart(3, "0");
  return `${sign}${digits.slice(0, -2)}.${digits.slice(-2)}\u202f%`;
}
