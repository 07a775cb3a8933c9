import { missing } from "./decimal.js";

/** An enum value for people: `TRADING_MODE_CONTINUOUS` with prefix `TRADING_MODE_` is `continuous`. */
export function enumName(value: string | undefined, prefix: string): string {
  return value === undefined || value === "" ? missing : value.replace(prefix, "").toLowerCase().replaceAll("_", " ");
}

/** Text of others on one line, and without what changes the direction of the text around it. */
export function printable(text: string): string {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "\ufffd");
}

/** Longer names are cut where there is no space for them, in characters. */
export const nameLengthMax = 40;

/** The first characters of a text, where there is no space for all. */
export function cut(text: string, lengthMax: number): string {
  return text.length <= lengthMax ? text : `${text.slice(0, lengthMax - 1)}…`;
}

/** The first and last characters of an identifier. */
export function shortId(id: string): string {
  return id.length <= 14 ? id : `${id.slice(0, 8)}…${id.slice(-4)}`;
}

/**
 * Equal names are told apart by short identifiers, and by whole ones where these are equal too. An identifier replaces a
 * name of spaces.
 */
export function withLabels<T extends { id: string; name: string }>(named: readonly T[]): (T & { label: string })[] {
  const short = ({ id, name }: T) => (name.trim() === "" ? shortId(id) : cut(name, nameLengthMax));
  const long = (each: T) => `${short(each)} · ${shortId(each.id)}`;
  const times = new Map<string, number>();
  for (const each of named) {
    for (const text of [short(each), long(each)]) times.set(text, (times.get(text) ?? 0) + 1);
  }
  return named.map((each) => {
    const label = [short(each), long(each)].find((text) => times.get(text) === 1);
    return { ...each, label: label ?? `${short(each)} · ${each.id}` };
  });
}
