import type { Http2Session } from "node:http2";
import type { TransportLimits } from "../limits.js";

/** The kernel takes at least so many bytes for a peer that reads nothing. */
const kernelBufferBytes = 16_384;

/** Watches whether the peer of an HTTP/2 session still is there, and whether it sends what it may. */
export class PeerWatch {
  readonly #session: Http2Session;
  readonly #limits: TransportLimits;
  /** Of the connection, at the last check. */
  #bytesRead = 0;
  #bytesWritten = 0;
  /** Nothing was received since the check before the last one. */
  #quiet = false;
  /** Pings without a response so far. */
  #unanswered = 0;
  /** When the peer last gave a sign of life, or was asked for one; in `performance.now()` time, like the next. */
  #aliveMs = performance.now();
  #pingedMs = performance.now();
  /** Bytes written when the last ping was asked for. */
  #writtenBeforePing = 0;
  /** Bytes that the peer is known to have read: all that was written before a ping that it answered. */
  #knownRead = 0;
  #checkedMs = performance.now();
  #streams = 0;
  /** Bytes that may still be received beyond what the limits allow for. */
  #overheadLeft: number;

  constructor(session: Http2Session, limits: TransportLimits) {
    this.#session = session;
    this.#limits = limits;
    this.#overheadLeft = limits.http2OverheadBytesPerSecondMax;
  }

  /** The peer opened a stream. */
  streamOpened(): void {
    this.#streams++;
  }

  /** What makes the session not worth keeping; undefined: nothing. To be called every so often. */
  check(nowMs: number, scarce: boolean, openStreams: number): string | undefined {
    const { bytesRead, bytesWritten } = this.#session.socket;
    const received = bytesRead - this.#bytesRead;
    const flooded = this.#countOverhead(received, bytesWritten - this.#bytesWritten, openStreams, nowMs);
    this.#bytesRead = bytesRead;
    this.#bytesWritten = bytesWritten;
    if (flooded) return "frames beside requests";
    const lost = this.#unanswered > 0 ? this.#lost(bytesWritten, nowMs, scarce, openStreams) : undefined;
    if (lost !== undefined) return lost;
    const becameQuiet = received === 0 && !this.#quiet;
    this.#quiet = received === 0;
    // A second ping after the first shows whether the session still writes.
    const probe = becameQuiet || (this.#quiet && this.#unanswered === 1);
    if (probe || nowMs - this.#pingedMs >= this.#limits.peerPingIntervalMs) this.#ping(nowMs, bytesWritten);
    return undefined;
  }

  #countOverhead(received: number, sent: number, openStreams: number, nowMs: number): boolean {
    const { headerBytesMax, requestBodyBytesMax, http2OverheadBytesPerSecondMax } = this.#limits;
    const requestBytesMax = headerBytesMax + requestBodyBytesMax;
    const forTime = (http2OverheadBytesPerSecondMax * (nowMs - this.#checkedMs)) / 1000;
    const left = this.#overheadLeft + forTime + this.#streams * requestBytesMax + sent / 4 - received;
    this.#checkedMs = nowMs;
    this.#streams = 0;
    // What a stream was allowed goes with it.
    this.#overheadLeft = Math.min(left, http2OverheadBytesPerSecondMax + openStreams * requestBytesMax);
    return left < 0;
  }

  /**
   * Why a session whose ping has no response is lost, if it is. nghttp2 writes nothing more after the GOAWAY with which it
   * ends a session for an invalid frame, and Node neither reads on nor tells of it. A session that cannot write because
   * its peer does not read looks the same, and is given time, unless connections are scarce. A peer that sends the headers
   * of a request only in part cannot answer pings either, and nothing tells of it: without a stream that is open, and
   * nothing to read, a peer has as long as headers may take.
   */
  #lost(bytesWritten: number, nowMs: number, scarce: boolean, openStreams: number): string | undefined {
    const { peerSilenceMaxMs, headersTimeoutMs } = this.#limits;
    const waitsForReader = bytesWritten - this.#knownRead >= kernelBufferBytes;
    const silenceMaxMs = openStreams > 0 || waitsForReader ? peerSilenceMaxMs : headersTimeoutMs;
    if (nowMs - this.#aliveMs > Math.min(silenceMaxMs, peerSilenceMaxMs)) return "a ping without a response";
    if (bytesWritten > this.#writtenBeforePing) return undefined;
    return scarce || !waitsForReader ? "a session that writes nothing any more" : undefined;
  }

  #ping(nowMs: number, bytesWritten: number): void {
    if (this.#session.destroyed) return;
    const sent = this.#session.ping((error) => {
      // A ping that is called off is no sign of life.
      if (error !== null || this.#session.destroyed) return;
      this.#unanswered--;
      this.#aliveMs = performance.now();
      this.#knownRead = bytesWritten;
      // The response itself does not count as activity: a peer that stays quiet is not pinged again for it.
      this.#bytesRead = this.#session.socket.bytesRead;
    });
    // Node allows ten without a response.
    if (!sent) return;
    if (this.#unanswered === 0) this.#aliveMs = nowMs;
    this.#unanswered++;
    this.#pingedMs = nowMs;
    this.#writtenBeforePing = bytesWritten;
  }
}
