import type { Http2Session, ServerHttp2Stream } from "node:http2";
import { type Begun, whenLoopTurned } from "../grpc/loop-turn.js";
import type { TransportLimits } from "../limits.js";
import { SessionTables } from "../session-tables.js";
import { OpenStream } from "./open-stream.js";

/** One HTTP/2 session: watches its peer and its streams. */
export class Http2Connection implements Begun {
  readonly #session: Http2Session;
  readonly #limits: TransportLimits;
  readonly #tables: SessionTables;
  /** Streams opened in this turn of the event loop. Most are over at its end, and are never watched. */
  #arrived: ServerHttp2Stream[] = [];
  /** In no order. An array, because V8 keeps what a growing Set has held (see {@link SessionTables}). */
  readonly #open: OpenStream[] = [];
  /** When the peer last answered a ping, in `performance.now()` time. */
  #heardMs = performance.now();
  #pingedMs = performance.now();

  constructor(session: Http2Session, limits: TransportLimits) {
    this.#session = session;
    this.#limits = limits;
    this.#tables = new SessionTables(session);
  }

  /** The peer has opened a stream. */
  streamOpened(stream: ServerHttp2Stream): void {
    this.#tables.streamOpened();
    if (this.#arrived.push(stream) === 1) whenLoopTurned(this);
  }

  loopTurned(): void {
    const arrived = this.#arrived;
    this.#arrived = [];
    for (const stream of arrived) {
      if (!stream.destroyed) this.#open.push(new OpenStream(stream, this.#open.length, (gone) => this.#forget(gone)));
    }
  }

  /** To be called every so often: ends what its peer has left behind. */
  check(nowMs: number): void {
    if (this.#session.destroyed) return;
    // Backwards: a stream that closes is replaced by the last one.
    for (let i = this.#open.length - 1; i >= 0; i--) this.#open[i]?.check();
    this.#checkPeer(nowMs);
  }

  #forget(gone: OpenStream): void {
    const last = this.#open.pop();
    if (last === undefined || last === gone) return;
    this.#open[gone.index] = last;
    last.index = gone.index;
  }

  #checkPeer(nowMs: number): void {
    const { peerSilenceMaxMs, peerPingIntervalMs } = this.#limits;
    if (nowMs - this.#heardMs > peerSilenceMaxMs) {
      this.#session.destroy();
      return;
    }
    if (nowMs - this.#pingedMs < peerPingIntervalMs) return;
    this.#pingedMs = nowMs;
    this.#session.ping((error) => {
      if (error === null) this.#heardMs = performance.now();
    });
  }
}
