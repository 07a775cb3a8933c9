import { instant, nanoseconds } from "../../src/domain/instant.js";

const nsPerDay = 86_400_000_000_000n;
const [start, end] = ["dateRange.startTimestamp", "dateRange.endTimestamp"];

/** A range of times in Unix nanoseconds, its end excluded; undefined: it has no such bound. */
export interface AccountRange {
  readonly startNs: bigint | undefined;
  readonly endNs: bigint | undefined;
}

/** The parameters of an account's URL as the API takes them: its times may be written as UTC. */
export function apiQuery(query: URLSearchParams): URLSearchParams {
  const isTime = (name: string) => name === start || name === end;
  const parameters = [...query].map(([name, value]): [string, string] => [
    name,
    (isTime(name) && nanoseconds(value)) || value,
  ]);
  return new URLSearchParams(parameters);
}

/** The range of a query of the API. One that is malformed has no bounds: the service says what is wrong. */
export function rangeOf(query: URLSearchParams): AccountRange {
  const bound = (name: string) => (/^[0-9]+$/.test(query.get(name) ?? "") ? BigInt(query.get(name) ?? 0) : undefined);
  return { startNs: bound(start), endNs: bound(end) };
}

/** A range as it is read. */
export interface ReadRange extends AccountRange {
  /** The newest block when it was read, where the range goes on beyond it; undefined: it ends before, or is live. */
  readonly newestNs: bigint | undefined;
}

/** Ends a range at the newest block, so that everything read of it agrees. Without start and end it stays live. */
export function readRange(range: AccountRange, newestNs: bigint): ReadRange {
  const { startNs, endNs } = range;
  const isLive = startNs === undefined && endNs === undefined;
  if (isLive || (endNs !== undefined && endNs <= newestNs)) return { ...range, newestNs: undefined };
  const after = newestNs + 1n;
  return { startNs, endNs: startNs !== undefined && startNs > after ? startNs : after, newestNs };
}

/** The parameters of a range, with another end. A malformed end stays, so that the service says what is wrong. */
export function endingAt(times: URLSearchParams, endNs: bigint | undefined): URLSearchParams {
  const query = new URLSearchParams(times);
  if (endNs !== undefined && /^[0-9]*$/.test(times.get(end) ?? "")) query.set(end, String(endNs));
  return query;
}

/** The day in UTC that a range is, as `2024-01-30`; undefined: it is none. */
export function dayOf({ startNs, endNs }: AccountRange): string | undefined {
  if (startNs === undefined || endNs !== startNs + nsPerDay || startNs % nsPerDay !== 0n) return undefined;
  return instant(String(startNs)).slice(0, 10) || "1970-01-01";
}

/** The day so many days after another one. */
export function dayAfter(day: string, days: number): string {
  const date = new Date(`${day}T00:00:00Z`);
  date.setUTCDate(date.getUTCDate() + days);
  return date.toISOString().slice(0, 10);
}

const weekdays = new Intl.DateTimeFormat("en", { weekday: "long", timeZone: "UTC" });

/** A day with its weekday: `Tuesday, 2024-01-30`. */
export const dayText = (day: string) => `${weekdays.format(new Date(`${day}T00:00:00Z`))}, ${day}`;

/** The same query of another day, at its first page; undefined: of all time. */
export function withDay(query: URLSearchParams, day: string | undefined): URLSearchParams {
  const kept = [...query].filter(([name]) => name.startsWith("filter."));
  const range: [string, string][] =
    day === undefined
      ? []
      : [
          [start, day],
          [end, dayAfter(day, 1)],
        ];
  return new URLSearchParams([...kept, ...range]);
}

/** A time to the minute, or as exactly as it is. */
export function shortTime(timeNs: bigint): string {
  return instant(String(timeNs)).replace(/(:00)?\.?0*$/, "");
}
