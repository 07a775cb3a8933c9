import { missing } from "./decimal.js";

/** An enum value for people: `TRADING_MODE_CONTINUOUS` with prefix `TRADING_MODE_` is `continuous`. */
export function enumName(value: string | undefined, prefix: string): string {
  return value === undefined || value === "" ? missing : value.replace(prefix, "").toLowerCase().replaceAll("_", " ");
}

/** The first and last characters of an identifier. */
export function shortId(id: string): string {
  return id.length <= 14 ? id : `${id.slice(0, 8)}…${id.slice(-4)}`;
}
