import { Failure } from "../../domain/failure.js";
import { HttpFailure } from "../http/http-failure.js";

/** The longest time Node's timers can wait, in milliseconds; a longer one would fire at once. */
export const timerMsMax = 2 ** 31 - 1;

const deadlineText = "the deadline of the call passed before its response was there";

/** The one response to a call that took longer than the server's limit, in every protocol. */
export function deadlineExceeded(): Failure {
  return new Failure("deadline_exceeded", deadlineText, { reason: "DEADLINE_EXCEEDED" });
}

/**
 * The one response to a call whose client set a deadline that has passed. It has no details: the client's library, which
 * watches the same deadline and mostly comes first, tells it without them, too.
 */
export function clientDeadlineExceeded(): Failure {
  return new Failure("deadline_exceeded", deadlineText, { reason: "DEADLINE_EXCEEDED", details: [] });
}

/** The one response to a request that took longer to arrive than the limit, in every protocol but HTTP/1.1's own. */
export function requestTooSlow(limitMs: number): Failure {
  const message = `the request did not arrive whole within ${limitMs} ms`;
  return new HttpFailure(408, "deadline_exceeded", "REQUEST_TOO_SLOW", message);
}

/** Why a call's signal is aborted when its client has left. Nobody is there to read it. */
export function clientLeft(): Failure {
  return new Failure("cancelled", "the client left", { reason: "CLIENT_LEFT" });
}
