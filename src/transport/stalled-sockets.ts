import type { Socket } from "node:net";

/** Interval between checks of connections, at most. */
const checkIntervalMs = 5_000;

/**
 * Closes HTTP/1.1 connections whose reader takes nothing. Node's server can do so too, with a timer that every request
 * of a kept connection sets and clears, which costs time in cached responses. Here a connection gets its timer once it
 * has bytes that its reader has not taken; progress renews it.
 */
export class StalledSockets {
  readonly #stalledMs: number;
  readonly #sockets: () => Iterable<Socket>;
  readonly #timer: NodeJS.Timeout;

  /**
   * A connection is closed when its reader took nothing for `stalledMs`, and at most twice that. `sockets` returns the
   * open ones.
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
      // The server itself closes a socket whose timer fires. It sets another timeout for idle connections.
      if (socket.writableLength > 0) {
        if (!socket.timeout) socket.setTimeout(this.#stalledMs);
      } else if (socket.timeout === this.#stalledMs) {
        // Everything was taken: a stream may be silent for longer.
        socket.setTimeout(0);
      }
    }
  }
}
