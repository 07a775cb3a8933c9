import type { Socket } from "node:net";

/** How often connections are looked at, at most. */
const checkIntervalMs = 5_000;

/**
 * Cuts HTTP/1.1 connections whose reader takes nothing of what was written for it. Node's server can watch them too, but
 * by a timer that each request of a kept connection sets and takes back, which a cached response feels. Here a connection gets
 * the timer once it is seen with bytes that its reader has not taken; progress renews it.
 */
export class StalledSockets {
  readonly #stalledMs: number;
  readonly #sockets: () => Iterable<Socket>;
  readonly #timer: NodeJS.Timeout;

  /**
   * A connection is cut when its reader took nothing for `stalledMs`, and at most as long again before it was seen.
   * `sockets` gives those that are open.
   */
  constructor(stalledMs: number, sockets: () => Iterable<Socket>) {
    this.#stalledMs = stalledMs;
    this.#sockets = sockets;
    this.#timer = setInterval(() => this.#watch(), Math.min(checkIntervalMs, stalledMs));
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #watch(): void {
    for (const socket of this.#sockets()) {
      // The server itself cuts a socket whose timer fires, and sets another time for one that idles between requests.
      if (socket.writableLength > 0) {
        if (!socket.timeout) socket.setTimeout(this.#stalledMs);
      } else if (socket.timeout === this.#stalledMs) {
        // All was taken: a stream may be silent for longer than that.
        socket.setTimeout(0);
      }
    }
  }
}
