import type { Http2Session } from "node:http2";
import type { TransportLimits } from "../options.js";

/** The kernel buffers at least this many bytes for a peer that reads nothing. */
const kernelBufferBytes = 16_384;

/** Checks whether the peer of an HTTP/2 session is alive, and keeps to its limits on frames. */
export class PeerWatch {
  /** The connection's values at the last check. */
  #bytesRead = 0;
  #bytesWritten = 0;
  /** Nothing was received since the check before the last one. */
  #quiet = false;
  /** Pings without a reply. */
  #unanswered = 0;
  /** The last sign of life, or the last ping; in `performance.now()` time, like the next. */
  #aliveMs = performance.now();
  #pingedMs = performance.now();
  /** Bytes written when the last ping was sent. */
  #writtenBeforePing = 0;
  /** Bytes that the peer is known to have read: everything written before a ping that it answered. */
  #knownRead = 0;
  #checkedMs = performance.now();
  #streams = 0;
  /** Bytes that may still be received beyond the limits. */
  #overheadLeft: number;

  constructor(
    private readonly session: Http2Session,
    private readonly limits: TransportLimits,
  ) {
    this.#overheadLeft = limits.http2OverheadBytesPerSecondMax;
  }

  /** The peer opened a stream. */
  streamOpened(): void {
    this.#streams++;
  }

  /** Why the session must end; undefined if it may continue. Called at intervals. */
  check(nowMs: number, scarce: boolean, openStreams: number): string | undefined {
    const { bytesRead, bytesWritten } = this.session.socket;
    const received = bytesRead - this.#bytesRead;
    const flooded = this.#countOverhead(received, bytesWritten - this.#bytesWritten, openStreams, nowMs);
    this.#bytesRead = bytesRead;
    this.#bytesWritten = bytesWritten;
    if (flooded) return "frames beside requests";
    const lost = this.#unanswered > 0 ? this.#lost(bytesWritten, nowMs, scarce, openStreams) : undefined;
    if (lost !== undefined) return lost;
    const becameQuiet = received === 0 && !this.#quiet;
    this.#quiet = received === 0;
    // A second ping shows whether the session still writes.
    const probe = becameQuiet || (this.#quiet && this.#unanswered === 1);
    if (probe || nowMs - this.#pingedMs >= this.limits.peerPingIntervalMs) this.#ping(nowMs, bytesWritten);
    return undefined;
  }

  #countOverhead(received: number, sent: number, openStreams: number, nowMs: number): boolean {
    const { headerBytesMax, requestBodyBytesMax, http2OverheadBytesPerSecondMax } = this.limits;
    const requestBytesMax = headerBytesMax + requestBodyBytesMax;
    const forTime = (http2OverheadBytesPerSecondMax * (nowMs - this.#checkedMs)) / 1000;
    const left = this.#overheadLeft + forTime + this.#streams * requestBytesMax + sent / 4 - received;
    this.#checkedMs = nowMs;
    this.#streams = 0;
    // The allowance of a stream ends with it.
    this.#overheadLeft = Math.min(left, http2OverheadBytesPerSecondMax + openStreams * requestBytesMax);
    return left < 0;
  }

  /**
   * Why a session with an unanswered ping is lost; undefined if it may still live. After the GOAWAY with which nghttp2
   * ends a session for an invalid frame, it writes nothing more, and Node neither reads on nor reports it. A session
   * whose peer does not read looks the same, so it is given time unless connections are scarce. A peer that sent only
   * part of a request's headers cannot reply to pings either. So a peer without an open stream, and with nothing to
   * read, has only the time limit of headers.
   */
  #lost(bytesWritten: number, nowMs: number, scarce: boolean, openStreams: number): string | undefined {
    const { peerSilenceMaxMs, headersTimeoutMs } = this.limits;
    const waitsForReader = bytesWritten - this.#knownRead >= kernelBufferBytes;
    const silenceMaxMs = openStreams > 0 || waitsForReader ? peerSilenceMaxMs : headersTimeoutMs;
    if (nowMs - this.#aliveMs > Math.min(silenceMaxMs, peerSilenceMaxMs)) return "a ping without a response";
    if (bytesWritten > this.#writtenBeforePing) return undefined;
    return scarce || !waitsForReader ? "a session that writes nothing any more" : undefined;
  }

  #ping(nowMs: number, bytesWritten: number): void {
    if (this.session.destroyed) return;
    const sent = this.session.ping((error) => {
      // A cancelled ping is no sign of life.
      if (error !== null || this.session.destroyed) return;
      this.#unanswered--;
      this.#aliveMs = performance.now();
      this.#knownRead = bytesWritten;
      // The reply itself does not count as activity, so a quiet peer is not pinged again for it.
      this.#bytesRead = this.session.socket.bytesRead;
    });
    // Node allows ten pings without a reply.
    if (!sent) return;
    if (this.#unanswered === 0) this.#aliveMs = nowMs;
    this.#unanswered++;
    this.#pingedMs = nowMs;
    this.#writtenBeforePing = bytesWritten;
  }
}
