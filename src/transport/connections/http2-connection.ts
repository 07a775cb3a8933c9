import { constants, type Http2Session, type ServerHttp2Stream } from "node:http2";
import { type Begun, whenLoopTurned } from "../grpc/loop-turn.js";
import type { TransportLimits } from "../limits.js";
import { SessionTables } from "../session-tables.js";
import { OpenStream } from "./open-stream.js";
import { PeerWatch } from "./peer-watch.js";
import { RateLimit } from "./rate-limit.js";

/** Streams of one connection that are served in one turn of the event loop; the others wait, so that nobody starves. */
export const streamsPerTurnMax = 128;

interface WaitingStream {
  readonly stream: ServerHttp2Stream;
  readonly serve: () => void;
}

/** One HTTP/2 session: shares the event loop with the others, and ends it when its peer is gone or goes too far. */
export class Http2Connection implements Begun {
  readonly #session: Http2Session;
  readonly #limits: TransportLimits;
  readonly #tables: SessionTables;
  readonly #peer: PeerWatch;
  readonly #resets: RateLimit;
  /** Streams served in this turn of the event loop. Most are over at its end, and are never watched. */
  #arrived: ServerHttp2Stream[] = [];
  /** Streams that wait for another turn, oldest first. */
  #waiting: WaitingStream[] = [];
  /** In no order. An array, because V8 keeps what a growing Set has held (see {@link SessionTables}). */
  readonly #open: OpenStream[] = [];
  /** A stream was opened since the last check. */
  #used = false;
  /** The last check before which a stream was open; in `performance.now()` time. */
  #unusedSinceMs = performance.now();

  constructor(session: Http2Session, limits: TransportLimits) {
    this.#session = session;
    this.#limits = limits;
    this.#tables = new SessionTables(session);
    this.#peer = new PeerWatch(session, limits);
    this.#resets = new RateLimit(limits.http2ResetBurstMax, limits.http2ResetsPerSecondMax);
    const controlFrames = new RateLimit(limits.http2ControlFramesPerSecondMax, limits.http2ControlFramesPerSecondMax);
    const countControlFrame = (): void => {
      if (!controlFrames.allows()) this.#cut("PING and SETTINGS frames");
    };
    session.on("ping", countControlFrame);
    session.on("remoteSettings", countControlFrame);
  }

  /** No stream is open. */
  get idle(): boolean {
    return this.#arrived.length === 0 && this.#waiting.length === 0 && this.#open.length === 0;
  }

  /** For how long there has been no stream, in milliseconds; up to the time between two checks less than that. */
  get idleMs(): number {
    return this.idle && !this.#used ? performance.now() - this.#unusedSinceMs : 0;
  }

  /** The peer has opened a stream. True: it may be served now; false: it has to {@link wait}. */
  streamOpened(stream: ServerHttp2Stream): boolean {
    this.#used = true;
    this.#tables.streamOpened();
    this.#peer.streamOpened();
    if (this.#arrived.length >= streamsPerTurnMax || this.#waiting.length > 0) return false;
    if (this.#arrived.push(stream) === 1) whenLoopTurned(this);
    return true;
  }

  /** `serve` is called in a later turn of the event loop, if the stream still is there then. */
  wait(stream: ServerHttp2Stream, serve: () => void): void {
    stream.on("error", ignore);
    this.#waiting.push({ stream, serve });
  }

  loopTurned(): void {
    const arrived = this.#arrived;
    this.#arrived = [];
    for (const stream of arrived) {
      if (stream.destroyed) this.#over(stream);
      else this.#open.push(new OpenStream(stream, this.#open.length, (gone) => this.#closed(gone)));
    }
    if (this.#waiting.length > 0) this.#serveWaiting();
  }

  /** To be called every so often: ends what its peer has left behind. `crowded`: connections are becoming scarce. */
  check(nowMs: number, crowded: boolean): void {
    if (this.#session.destroyed) return;
    if (this.#used || !this.idle) this.#unusedSinceMs = nowMs;
    this.#used = false;
    // Backwards: a stream that closes is replaced by the last one.
    for (let i = this.#open.length - 1; i >= 0; i--) this.#open[i]?.check(nowMs, this.#limits);
    const fault = this.#peer.check(nowMs, crowded, this.#open.length);
    if (fault !== undefined) this.#cut(fault);
  }

  /** Streams that were reset while they waited cost nothing more. */
  #serveWaiting(): void {
    const waiting = this.#waiting;
    let next = 0;
    for (; next < waiting.length && this.#arrived.length < streamsPerTurnMax; next++) {
      const { stream, serve } = waiting[next] as WaitingStream;
      if (stream.destroyed) {
        this.#over(stream);
        continue;
      }
      if (this.#arrived.push(stream) === 1) whenLoopTurned(this);
      serve();
    }
    this.#waiting = waiting.slice(next);
  }

  #closed(gone: OpenStream): void {
    this.#over(gone.stream);
    const last = this.#open.pop();
    if (last === undefined || last === gone) return;
    this.#open[gone.index] = last;
    last.index = gone.index;
  }

  /** Counts a stream that ended by a reset, from whichever side: a client can provoke ours, too. */
  #over(stream: ServerHttp2Stream): void {
    if (stream.rstCode !== constants.NGHTTP2_NO_ERROR && !this.#resets.allows()) this.#cut("resets");
  }

  #cut(fault: string): void {
    if (this.#session.destroyed) return;
    this.#session.destroy(new Error(`an HTTP/2 connection was cut: ${fault}`), constants.NGHTTP2_ENHANCE_YOUR_CALM);
  }
}

/** A stream without this would end the process by its reset. */
function ignore(): void {}
