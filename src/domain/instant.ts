const nsPerMs = 1_000_000n;
const nsPerSecond = 1_000_000_000n;

/** Unix nanoseconds as UTC with all nine decimals: `2023-01-18 01:09:55.425088123`. Empty where there is none. */
export function instant(nanoseconds: string | undefined): string {
  return nanoseconds === undefined || nanoseconds === "" || nanoseconds === "0" ? "" : utc(BigInt(nanoseconds));
}

function utc(timeNs: bigint): string {
  const date = new Date(Number(timeNs / nsPerMs));
  if (Number.isNaN(date.getTime())) return String(timeNs);
  return `${date.toISOString().slice(0, 19).replace("T", " ")}.${String(timeNs % nsPerSecond).padStart(9, "0")}`;
}

/** The same in ISO 8601, for files: `2023-01-18T01:09:55.425088123Z`. */
export function isoInstant(timeNs: bigint): string {
  return `${utc(timeNs).replace(" ", "T")}Z`;
}

/**
 * Unix nanoseconds of text such as `2023-01-18 01:09:55.425088123`, which is UTC unless it ends with an offset such as
 * `+01:00`, or of the number itself; undefined: neither.
 */
export function nanoseconds(text: string): string | undefined {
  const trimmed = text.trim();
  if (/^[0-9]{1,19}$/.test(trimmed) && trimmed.length > 4) return trimmed;
  const match =
    /^(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?)?(?:Z|([+ -]\d{2}:\d{2}))?$/.exec(trimmed);
  if (match === null) return undefined;
  const [, day = "", minutes = "00:00", seconds = "00", fraction = "", offset = "Z"] = match;
  const inUtc = Date.parse(`${day}T${minutes}:${seconds}Z`);
  // A day that its month does not have becomes one of the next.
  if (Number.isNaN(inUtc) || !new Date(inUtc).toISOString().startsWith(day)) return undefined;
  // The plus sign of a URL's query is a space.
  const milliseconds = Date.parse(`${day}T${minutes}:${seconds}${offset.replace(" ", "+")}`);
  if (Number.isNaN(milliseconds)) return undefined;
  return String(BigInt(milliseconds) * nsPerMs + BigInt(fraction.padEnd(9, "0")));
}

/** The time of day of a moment in milliseconds: `12:03:04 UTC`. */
export function timeOfDay(milliseconds: number): string {
  return `${new Date(milliseconds).toISOString().slice(11, 19)} UTC`;
}

const units = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
] as const;

/** A length of time in the largest unit of which it has at least two: `34 s`, `5 min`. */
export function duration(seconds: number): string {
  const [unit, length] = units.find(([, size]) => seconds >= 2 * size) ?? ["s", 1];
  return `${Math.max(0, Math.floor(seconds / length))} ${unit}`;
}
