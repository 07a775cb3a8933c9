import { Failure } from "../../domain/failure.js";
import { HttpFailure } from "../http/http-failure.js";

/** The longest delay of Node's timers, in milliseconds; a longer one would fire at once. */
export const timerMsMax = 2 ** 31 - 1;

const deadlineText = "the deadline of the call passed before its response was there";

/** The failure of a call that took longer than the server's limit, in every protocol. */
export function deadlineExceeded(): Failure {
  return new Failure("deadline_exceeded", deadlineText, { reason: "DEADLINE_EXCEEDED" });
}

/**
 * The failure of a call whose client's deadline has passed. It has no details, because the client's library watches the
 * same deadline and reports it without them.
 */
export function clientDeadlineExceeded(): Failure {
  return new Failure("deadline_exceeded", deadlineText, { reason: "DEADLINE_EXCEEDED", details: [] });
}

/** The failure of a request that arrived too slowly, in every protocol except HTTP/1.1's own. */
export function requestTooSlow(limitMs: number): Failure {
  const message = `the request did not arrive whole within ${limitMs} ms`;
  return new HttpFailure(408, "deadline_exceeded", "REQUEST_TOO_SLOW", message);
}

/** The reason when a call's signal is aborted because its client left. Nobody reads it. */
export function clientLeft(): Failure {
  return new Failure("cancelled", "the client left", { reason: "CLIENT_LEFT" });
}
