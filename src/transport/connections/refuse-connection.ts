import { constants } from "node:http2";
import type { Socket } from "node:net";
import { Failure, unavailable } from "../../domain/failure.js";
import { peekPreface } from "../peek-preface.js";
import { tooManyCancelledCalls } from "./cancelled-calls.js";
import { closeLingering } from "./lingering-close.js";
import { rawErrorResponse } from "./malformed-request.js";

/** Retry delay for a client whose connection was refused. */
const connectionRetryMs = 5_000;

/** How long a refused client may take to reveal its protocol, and then to read the reason. */
const refusalMs = 1_000;

/** The reasons for refusing connections. */
export const connectionRefusals = [
  "TOO_MANY_CONNECTIONS",
  "TOO_MANY_CONNECTIONS_OF_CLIENT",
  "TOO_MANY_CANCELLED_CALLS",
] as const;

/** One of {@link connectionRefusals}. */
export type RefusalReason = (typeof connectionRefusals)[number];

/**
 * Refuses a connection without TLS, with a reason: HTTP/1.1 gets 503 or 429, HTTP/2 gets GOAWAY with ENHANCE_YOUR_CALM.
 * The client has up to a second each to speak, to take the bytes, and to close.
 */
export function refuseConnection(socket: Socket, reason: RefusalReason): void {
  peekPreface(socket, refusalMs, (http2) => {
    socket.on("error", ignore);
    socket.setTimeout(refusalMs);
    closeLingering(socket, refusalMs, http2 ? goAway : responseOf(reason));
  });
}

/** Made once each: thousands of connections per second may be refused. */
const responses = new Map<RefusalReason, Buffer>();

function responseOf(reason: RefusalReason): Buffer {
  let response = responses.get(reason);
  if (response === undefined) {
    response = rawErrorResponse(failureOf(reason));
    responses.set(reason, response);
  }
  return response;
}

function failureOf(reason: RefusalReason): Failure {
  if (reason === "TOO_MANY_CONNECTIONS") {
    return unavailable("this server has as many connections as it can; try again", reason, connectionRetryMs);
  }
  if (reason === "TOO_MANY_CANCELLED_CALLS") return tooManyCancelledCalls();
  const message = "this client has as many connections open as one address may; close some";
  return new Failure("resource_exhausted", message, { reason, retryAfterMs: connectionRetryMs });
}

/** The peer may disconnect meanwhile. */
function ignore(): void {}

/** An empty SETTINGS frame, the first of every HTTP/2 server, and GOAWAY (RFC 9113, 6.5 and 6.8). */
const goAway = Buffer.from([
  ...[0, 0, 0, 4, 0, 0, 0, 0, 0],
  ...[0, 0, 8, 7, 0, 0, 0, 0, 0],
  ...[0, 0, 0, 0],
  ...[0, 0, 0, constants.NGHTTP2_ENHANCE_YOUR_CALM],
]);
