import { constants, type Http2Session } from "node:http2";

/** For the first GOAWAY: streams that are in transit are still served (RFC 9113, 6.8). */
const lastStreamIdMax = 2 ** 31 - 1;

/** How long a peer may take to reply to the PING after the first GOAWAY. */
const roundTripMaxMs = 250;

/**
 * Ends an HTTP/2 session without refusing streams that its peer opens before it learns of the end. The first GOAWAY is
 * sent with the next stream, because a client that waits for a response opens no other. (Node's client refuses its own
 * unsent stream when GOAWAY arrives, and connect-node does not retry.) The GOAWAY that names the last stream follows a
 * round trip later. Open streams continue. Without a next stream, this starts after `waitMs`.
 *
 * A session without streams gets the second GOAWAY only: after a first one, Node reads neither new streams nor the
 * reply to a PING. Streams that arrive too late are refused, and safe to retry.
 * @param isIdle whether no stream is open
 */
export function closeSession(session: Http2Session, waitMs: number, isIdle: () => boolean): void {
  let late: NodeJS.Timeout | undefined;
  const close = (): void => {
    clearTimeout(late);
    session.off("stream", announce);
    if (!session.destroyed) session.close();
  };
  const announce = (): void => {
    clearTimeout(idle);
    session.off("stream", announce);
    if (session.closed || session.destroyed) return;
    session.goaway(constants.NGHTTP2_NO_ERROR, lastStreamIdMax);
    late = setTimeout(close, roundTripMaxMs);
    // A failed write ends the session within the call before, and a session that has ended cannot ping.
    if (!session.destroyed) session.ping(close);
  };
  const endSilently = (): void => {
    if (late !== undefined) return;
    if (isIdle()) close();
    else announce();
  };
  // Timers run before arrived data is read. After a standstill, a stream may be among that data.
  const idle = setTimeout(() => setImmediate(endSilently), Math.max(0, waitMs));
  session.once("stream", announce);
}
