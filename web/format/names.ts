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
