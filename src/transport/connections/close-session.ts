import { constants, type Http2Session } from "node:http2";

/** The peer may open every stream that it can (RFC 9113, 6.8): those that are on their way are served. */
const lastStreamIdMax = 2 ** 31 - 1;

/** How long a peer may take to answer the ping that tells that nothing more is on its way. */
const roundTripMaxMs = 1_000;

/**
 * Ends an HTTP/2 session without refusing a stream that its peer opened before it learned of the end: first GOAWAY for
 * no stream in particular, and a round trip later the one that names the last stream. What is open then goes on.
 */
export function closeSession(session: Http2Session): void {
  if (session.destroyed || session.closed) return;
  session.goaway(constants.NGHTTP2_NO_ERROR, lastStreamIdMax);
  const close = (): void => {
    clearTimeout(timer);
    session.off("close", close);
    if (!session.destroyed && !session.closed) session.close();
  };
  const timer = setTimeout(close, roundTripMaxMs);
  session.once("close", close);
  session.ping(close);
}
