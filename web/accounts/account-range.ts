import { isoInstant } from "../../src/domain/instant.js";

const nsPerDay = 86_400_000_000_000n;
const [start, end] = ["dateRange.startTimestamp", "dateRange.endTimestamp"];

/** A range of times in Unix nanoseconds, its end excluded; undefined: it has no such bound. */
export interface AccountRange {
  readonly startNs: bigint | undefined;
  readonly endNs: bigint | undefined;
}

/** The range of a query of the API. What is no time is no bound. */
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

/** The parameters of a range, with another end. */
export function endingAt(times: URLSearchParams, endNs: bigint | undefined): URLSearchParams {
  const query = new URLSearchParams(times);
  if (endNs !== undefined) query.set(end, String(endNs));
  return query;
}

/** The day in UTC that a range is, as `2024-01-30`; undefined: it is none. */
export function dayOf({ startNs, endNs }: AccountRange): string | undefined {
  if (startNs === undefined || endNs !== startNs + nsPerDay || startNs % nsPerDay !== 0n) return undefined;
  return isoInstant(startNs).slice(0, 10);
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
