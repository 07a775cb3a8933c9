import { duration, timeOfDay } from "../../src/domain/instant.js";
import type { StreamState } from "../books/book-store.js";
import type { Status } from "../service/service-status.js";
import type { Polled } from "./use-poll.js";

/** A network that makes no block for this long stands still. */
export const blockAgeMaxSeconds = 15;

/** Says since when books are old; undefined: they are not. */
export function staleBooks(stream: StreamState, status: Status, now: number): string | undefined {
  const { state, since, message } = stream;
  if (state === "lost") return `Not updated since ${timeOfDay(since)}: ${message}. Trying again.`;
  return staleNetwork(status, now);
}

/** Says since when the network stands still; undefined: it does not. */
export function staleNetwork({ blockAgeSeconds = 0 }: Status, now: number): string | undefined {
  if (blockAgeSeconds <= blockAgeMaxSeconds) return undefined;
  const at = new Date(now - blockAgeSeconds * 1_000).toISOString().slice(0, 19).replace("T", " ");
  return `No block since ${at} UTC, ${duration(blockAgeSeconds)} ago.`;
}

/** Says since when a response could not be had again; undefined: the newest request was answered. */
export function stalePoll({ error, value, at }: Polled<unknown>): string | undefined {
  return error === undefined || value === undefined ? undefined : `As of ${timeOfDay(at)}: ${error.message}.`;
}
