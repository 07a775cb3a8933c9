import type { Call } from "../domain/service.js";

/** The id of the last event that a reconnecting client of server-sent events saw; undefined: none. */
export function lastEventId({ requestHeaders }: Call): string | undefined {
  const id = requestHeaders["last-event-id"];
  return typeof id === "string" && id !== "" ? id : undefined;
}
