import { constants, type Http2Session } from "node:http2";

/** In the first GOAWAY: streams that are on their way are still served (RFC 9113, 6.8). */
const lastStreamIdMax = 2 ** 31 - 1;

/** How long a session may be without a new stream before it is told to end: its peer then has none on the way. */
const idleMs = 250;

/** How long a peer may take to answer the ping behind the first GOAWAY. Node does not read the answer of one without streams. */
const roundTripMaxMs = 250;

/**
 * Ends an HTTP/2 session without refusing streams that its peer opens before it learns of the end. The first GOAWAY goes
 * with the next stream, because a client that waits for a response is opening no other (Node's client refuses a stream of
 * its own that it has not sent when GOAWAY arrives, and connect-node does not try again). A round trip later comes the
 * GOAWAY that names the last stream. Streams that are open go on.
 */
export function closeSession(session: Http2Session): void {
  const announce = (): void => {
    clearTimeout(idle);
    session.off("stream", announce);
    if (session.closed || session.destroyed) return;
    session.goaway(constants.NGHTTP2_NO_ERROR, lastStreamIdMax);
    const close = (): void => {
      clearTimeout(late);
      if (!session.destroyed) session.close();
    };
    const late = setTimeout(close, roundTripMaxMs);
    session.ping(close);
  };
  const idle = setTimeout(announce, idleMs);
  session.once("stream", announce);
}
