import { duration, instant, timeOfDay } from "../../src/domain/instant.js";
import type { StreamState } from "../books/book-store.js";
import type { Status } from "../service/service-status.js";
import type { Polled } from "./use-poll.js";

/** A network that makes no block for this long stands still. */
export const blockAgeMaxSeconds = 15;

/** Says since when no updates of books arrive; undefined: they do. */
export function lostBooks(stream: StreamState): string | undefined {
  const { state, since, message } = stream;
  if (state === "lost") return `Not updated since ${timeOfDay(since)}: ${message}. Trying again.`;
  if (state === "paused") return `Not updated since ${timeOfDay(since)}: ${message}.`;
  return undefined;
}

/** Since when the service does not respond. */
export const silentText = ({ since }: Status): string => `no response since ${timeOfDay(since)}`;

/** Says since when the service does not respond, or the network stands still; undefined: neither. */
export function staleNetwork(status: Status): string | undefined {
  if (!status.reachable) return `The service gives ${silentText(status)}.`;
  const { blockAgeSeconds: age = 0, blockTimestamp } = status.response ?? {};
  if (age <= blockAgeMaxSeconds) return undefined;
  return `No block since ${instant(blockTimestamp).slice(0, 19)} UTC, ${duration(age)} ago.`;
}

/** Says that a market's book is wrong or missing, and since when, if the page saw it begin. */
export function staleMarket(since: number | undefined): string {
  return `Stale${since === undefined ? "" : ` since ${timeOfDay(since)}`}`;
}

/** Says why a list is not live; undefined: it is. */
export function staleStream(lost: string): string | undefined {
  return lost === "" ? undefined : `Not live: ${lost}. Trying again.`;
}

/** Says since when a response could not be had again; undefined: the newest request was answered. */
export function stalePoll({ error, value, at }: Polled<unknown>): string | undefined {
  return error === undefined || value === undefined ? undefined : `As of ${timeOfDay(at)}: ${error.message}.`;
}
