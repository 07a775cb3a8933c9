import { constants, type ServerHttp2Stream } from "node:http2";

/**
 * An HTTP/2 stream that outlived the turn of the event loop in which it was opened. Follows its response to the end: a
 * client that still sends after the whole response is told to stop.
 */
export class OpenStream {
  readonly stream: ServerHttp2Stream;
  /** Where its connection keeps it. */
  index: number;

  /** `closed` is called once, with this. */
  constructor(stream: ServerHttp2Stream, index: number, closed: (stream: OpenStream) => void) {
    this.stream = stream;
    this.index = index;
    stream.once("close", () => closed(this));
    if (stream.writableFinished) this.#stopSenderSoon();
    else stream.once("finish", () => this.#stopSenderSoon());
  }

  /** To be called every so often. */
  check(): void {
    if (this.stream.writableFinished) this.#stopSender();
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
