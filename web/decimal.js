// Whole numbers of any size, as the service sends them: text. They never become floating point here.

/** Puts a decimal point `places` from the end of a whole number; negative places append zeros. */
export function scaled(text, places) {
  if (text === undefined || text === "") return "–";
  const negative = text.startsWith("-");
  const digits = negative ? text.slice(1) : text;
  const sign = negative ? "-" : "";
  if (places <= 0) return sign + grouped(digits === "0" ? digits : digits + "0".repeat(-places));
  const padded = digits.padStart(places + 1, "0");
  return `${sign}${grouped(padded.slice(0, -places))}.${padded.slice(-places)}`;
}

/** Groups of three digits, with thin spaces; a long number breaks between them. */
export function grouped(digits) {
  return digits.replace(/\B(?=(\d{3})+$)/g, "\u2009");
}

/** An instant in nanoseconds as UTC with all its nine decimals: `2023-01-18 01:09:55.425088123`. */
export function instant(nanoseconds) {
  if (nanoseconds === undefined || nanoseconds === "0") return "–";
  const value = BigInt(nanoseconds);
  const date = new Date(Number(value / 1_000_000n));
  if (Number.isNaN(date.getTime())) return nanoseconds;
  const fraction = String(value % 1_000_000_000n).padStart(9, "0");
  return `${date.toISOString().slice(0, 19).replace("T", " ")}.${fraction}`;
}

/** An enumeration's value for readers: `TRADING_MODE_CONTINUOUS` without its prefix is `continuous`. */
export function plainName(value, prefix) {
  if (value === undefined) return "–";
  return value.replace(prefix, "").toLowerCase().replaceAll("_", " ");
}

/** The beginning and the end of an identifier. */
export function shortId(id) {
  return id.length <= 14 ? id : `${id.slice(0, 8)}…${id.slice(-4)}`;
}

const ageUnits = [
  ["days", 86_400],
  ["h", 3_600],
  ["min", 60],
];

/** A number of seconds in the largest unit of which it has at least two. */
export function age(seconds) {
  const [unit, length] = ageUnits.find(([, size]) => seconds >= 2 * size) ?? ["s", 1];
  return `${Math.floor(seconds / length)} ${unit}`;
}
