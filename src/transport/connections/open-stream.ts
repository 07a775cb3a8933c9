import { constants, type ServerHttp2Stream } from "node:http2";
import type { TransportLimits } from "../limits.js";
import { sweepIntervalMs } from "../stream-guard.js";
import { isWholeResponse, unreadBytes } from "./unread-responses.js";

/**
 * An HTTP/2 stream that outlived the turn of the event loop in which it was opened. It is checked until its end:
 * readers that take nothing are reset, and clients that keep sending after the whole response are stopped.
 */
export class OpenStream {
  readonly stream: ServerHttp2Stream;
  /** In `performance.now()` time. */
  readonly openedMs: number;
  /** Its index in its connection's list. */
  index: number;
  /** Bytes that the peer had not taken at the last check. */
  #pendingBytes = 0;
  /** When {@link #pendingBytes} last increased from 0 or decreased, in `performance.now()` time. */
  #takenMs = 0;

  /** `closed` is called once, with this stream. */
  constructor(stream: ServerHttp2Stream, index: number, openedMs: number, closed: (stream: OpenStream) => void) {
    this.stream = stream;
    this.openedMs = openedMs;
    this.index = index;
    stream.once("close", () => closed(this));
    if (stream.writableFinished) this.#stopSenderSoon();
    else stream.once("finish", () => this.#stopSenderSoon());
  }

  /** Called at intervals. */
  check(nowMs: number, { stalledReaderMs, breakOffMs }: TransportLimits): void {
    const { stream } = this;
    if (stream.writableFinished) {
      this.#stopSender();
      return;
    }
    const pendingBytes = unreadBytes(stream);
    const before = this.#pendingBytes;
    this.#pendingBytes = pendingBytes;
    if (pendingBytes === 0 || before === 0 || pendingBytes < before) {
      this.#takenMs = nowMs;
      return;
    }
    // The stream guard ends message streams first, with a reason. Its check interval is added to the limit.
    const guardMs = isWholeResponse(stream) ? 0 : Math.min(sweepIntervalMs, stalledReaderMs) + breakOffMs;
    const limitMs = stalledReaderMs + guardMs;
    if (nowMs - this.#takenMs >= limitMs) stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  }

  /** The last frames leave at the end of the turn; a reset in the same turn could overtake them. */
  #stopSenderSoon(): void {
    setImmediate(() => this.#stopSender());
  }

  /** Resets the stream with NO_ERROR if the response has left but the request continues (RFC 9113, 8.1). */
  #stopSender(): void {
    const { stream } = this;
    if (stream.destroyed || stream.closed || stream.state.localClose !== 1) return;
    stream.close(constants.NGHTTP2_NO_ERROR);
  }
}
