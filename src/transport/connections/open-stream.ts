import { constants, type ServerHttp2Stream } from "node:http2";
import type { TransportLimits } from "../limits.js";
import { sweepIntervalMs } from "../stream-guard.js";
import { isWholeResponse, unreadBytes } from "./unread-responses.js";

/**
 * An HTTP/2 stream that outlived the turn of the event loop in which it was opened. Follows its response to the end: a
 * reader that takes nothing is reset, and a client that still sends after the whole response is told to stop.
 */
export class OpenStream {
  readonly stream: ServerHttp2Stream;
  /** In `performance.now()` time. */
  readonly openedMs: number;
  /** Where its connection keeps it. */
  index: number;
  /** Bytes that the peer has yet to take, as last seen. */
  #pendingBytes = 0;
  /** When {@link #pendingBytes} last grew from 0 or became fewer, in `performance.now()` time. */
  #takenMs = 0;

  /** `closed` is called once, with this. */
  constructor(stream: ServerHttp2Stream, index: number, openedMs: number, closed: (stream: OpenStream) => void) {
    this.stream = stream;
    this.openedMs = openedMs;
    this.index = index;
    stream.once("close", () => closed(this));
    if (stream.writableFinished) this.#stopSenderSoon();
    else stream.once("finish", () => this.#stopSenderSoon());
  }

  /** To be called every so often. */
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
    // The stream guard ends a stream of messages first, and says why: it looks as often as this adds to the limit.
    const guardMs = isWholeResponse(stream) ? 0 : Math.min(sweepIntervalMs, stalledReaderMs) + breakOffMs;
    const limitMs = stalledReaderMs + guardMs;
    if (nowMs - this.#takenMs >= limitMs) stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  }

  /** The last frames leave at the end of the turn: a reset in the same turn could overtake them. */
  #stopSenderSoon(): void {
    setImmediate(() => this.#stopSender());
  }

  /** Resets the stream without an error when the response has left but the request goes on; RFC 9113, 8.1. */
  #stopSender(): void {
    const { stream } = this;
    if (stream.destroyed || stream.closed || stream.state.localClose !== 1) return;
    stream.close(constants.NGHTTP2_NO_ERROR);
  }
}
