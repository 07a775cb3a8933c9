export const daySeconds = 86_400;

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });
/** Beyond what a chart can tell apart. */
const fractionDigitsMax = 12;
const plain = new Intl.NumberFormat("en", { maximumFractionDigits: fractionDigitsMax });
const compactMin = 1e6;
const exponentialMin = 1e15;

/** A time beside an axis in UTC, as short as its steps and the length of the axis allow. */
export function axisTime(seconds: number, stepSeconds: number, lengthSeconds: number): string {
  const text = new Date(seconds * 1_000).toISOString().replace("T", " ");
  if (stepSeconds >= daySeconds) return text.slice(0, 10);
  return lengthSeconds > daySeconds ? text.slice(5, 16) : text.slice(11, 19);
}

const fraction = (text: string) => text.split(".")[1] ?? "";

/** Powers of ten with as many digits as tell them apart. */
function exponentials(values: readonly number[]): string[] {
  let texts: string[] = [];
  for (let digits = 2; digits <= fractionDigitsMax; digits++) {
    texts = values.map((value) => (value === 0 ? "0" : value.toExponential(digits)));
    if (new Set(texts).size === values.length) break;
  }
  return texts;
}

/** Numbers beside an axis, in a few characters each, all with the same decimals. */
export function axisNumbers(values: readonly number[]): string[] {
  if (values.some((value) => Math.abs(value) >= exponentialMin)) return exponentials(values);
  const short = values.map((value) => compact.format(value));
  // Large numbers that differ by little need all their digits.
  const isLarge = values.some((value) => Math.abs(value) >= compactMin) && new Set(short).size === values.length;
  const places = Math.max(0, ...values.map((value) => fraction(plain.format(value)).length));
  const exact = new Intl.NumberFormat("en", {
    minimumFractionDigits: places,
    maximumFractionDigits: fractionDigitsMax,
  });
  return values.map((value) => {
    const size = Math.abs(value);
    return (isLarge && size >= compactMin ? compact : exact).format(value).replaceAll(",", "\u202f");
  });
}
