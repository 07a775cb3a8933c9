import { constants, type Http2Session, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { quotaKey } from "../../domain/client-address.js";
import { RateLimit } from "../../domain/rate-limit.js";
import { type OpenCall, whenLoopTurned } from "../call/loop-turn.js";
import type { ClientAddresses } from "../client-addresses.js";
import type { TransportLimits } from "../limits.js";
import { type CancelledCalls, earlyCancelMs } from "./cancelled-calls.js";
import { OpenStream } from "./open-stream.js";
import { PeerWatch } from "./peer-watch.js";
import type { TurnShares } from "./turn-shares.js";

interface WaitingStream {
  readonly stream: ServerHttp2Stream;
  readonly serve: () => void;
  /** Listens to the end of the stream meanwhile. */
  readonly closed: () => void;
}

/** What an {@link Http2Connection} needs. */
export interface Http2ConnectionOptions {
  readonly limits: TransportLimits;
  readonly clients: ClientAddresses;
  readonly cancelled: CancelledCalls;
  readonly shares: TurnShares;
}

/** One HTTP/2 session: shares the event loop with the others, and ends it when its peer is gone or goes too far. */
export class Http2Connection implements OpenCall {
  readonly #session: Http2Session;
  readonly #options: Http2ConnectionOptions;
  readonly #peer: PeerWatch;
  readonly #address: string;
  /** The client's quota key; of a trusted proxy, each stream has its own. */
  readonly #client: string | undefined;
  readonly #clients = new WeakMap<ServerHttp2Stream, string>();
  readonly #cancels: RateLimit;
  /** Streams served in this turn of the event loop. Most are over at its end, and are never watched. */
  #arrived: ServerHttp2Stream[] = [];
  /** How many were served in this turn. */
  #served = 0;
  /** Streams that wait for another turn, oldest first. */
  #waiting: WaitingStream[] = [];
  /** In no order. An array, because V8 keeps what a growing Set has held for as long as anything old points to it. */
  readonly #open: OpenStream[] = [];
  /** A stream was opened since the last check. */
  #used = false;
  /** The last check before which a stream was open; in `performance.now()` time. */
  #unusedSinceMs = performance.now();
  /** The connection is about to be cut: nothing more is served. */
  #isCut = false;

  constructor(session: Http2Session, options: Http2ConnectionOptions) {
    const { limits, clients } = options;
    this.#session = session;
    this.#options = options;
    this.#peer = new PeerWatch(session, limits);
    this.#address = session.socket.remoteAddress ?? "";
    this.#client = clients.isProxy(this.#address) ? undefined : quotaKey(clients.of(this.#address, undefined));
    this.#cancels = new RateLimit(limits.http2CancelBurstMax, limits.http2CancelsPerSecondMax);
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

  /**
   * The peer has opened a stream, which `serve` serves: at once, or in a later turn of the event loop, if the stream still
   * is there then. Streams of a client that cancels too many calls are reset.
   */
  streamOpened(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, serve: () => void): void {
    if (this.#isCut) {
      stream.on("error", ignore);
      return;
    }
    if (this.#client === undefined && this.#refuses(stream, headers)) return;
    this.#used = true;
    this.#peer.streamOpened();
    if (this.#waiting.length === 0 && this.#options.shares.take(this.#served)) this.#serve(stream, serve);
    else this.#wait(stream, serve);
  }

  loopTurned(): void {
    this.#served = 0;
    this.#watchArrived();
    if (this.#waiting.length > 0 && !this.#isCut) this.#serveWaiting();
  }

  /** Called at intervals: ends streams and sessions that the peer abandoned. `scarce`: few connections are left. */
  check(nowMs: number, scarce: boolean): void {
    if (this.#session.destroyed) return;
    if (this.#used || !this.idle) this.#unusedSinceMs = nowMs;
    this.#used = false;
    // Backwards: a stream that closes is replaced by the last one.
    for (let i = this.#open.length - 1; i >= 0; i--) this.#open[i]?.check(nowMs, this.#options.limits);
    if (this.#session.destroyed) return;
    const fault = this.#peer.check(nowMs, scarce, this.#open.length);
    if (fault !== undefined) this.#cut(fault);
  }

  #serve(stream: ServerHttp2Stream, serve: () => void): void {
    this.#arrived.push(stream);
    if (++this.#served === 1) whenLoopTurned(this);
    serve();
  }

  /** Streams that are reset while they wait cost nothing more. */
  #wait(stream: ServerHttp2Stream, serve: () => void): void {
    // In the same packet others may have been reset already.
    this.#watchArrived();
    stream.on("error", ignore);
    const arrivedMs = performance.now();
    const closed = (): void => this.#over(stream, arrivedMs);
    stream.on("close", closed);
    this.#waiting.push({ stream, serve, closed });
  }

  #serveWaiting(): void {
    const waiting = this.#waiting;
    let next = 0;
    for (; next < waiting.length; next++) {
      const { stream, serve, closed } = waiting[next] as WaitingStream;
      if (stream.destroyed) continue;
      if (!this.#options.shares.take(this.#served)) break;
      stream.off("close", closed);
      this.#serve(stream, serve);
    }
    this.#waiting = waiting.slice(next);
  }

  #watchArrived(): void {
    if (this.#arrived.length === 0) return;
    const arrived = this.#arrived;
    this.#arrived = [];
    const nowMs = performance.now();
    for (const stream of arrived) {
      if (stream.destroyed) this.#over(stream, nowMs);
      // Most are: nothing of them is left to be sent or received.
      else if (stream.writableFinished && stream.readableEnded) continue;
      else this.#open.push(new OpenStream(stream, this.#open.length, nowMs, (gone) => this.#closed(gone)));
    }
  }

  #closed(gone: OpenStream): void {
    this.#over(gone.stream, gone.openedMs);
    const last = this.#open.pop();
    if (last === undefined || last === gone) return;
    this.#open[gone.index] = last;
    last.index = gone.index;
  }

  /**
   * Counts a stream that ended early by a reset, from whichever side (a client can provoke ours, too), or with its
   * connection.
   */
  #over(stream: ServerHttp2Stream, openedMs: number): void {
    if (stream.rstCode === constants.NGHTTP2_NO_ERROR || performance.now() - openedMs >= earlyCancelMs) return;
    const client = this.#client ?? this.#clients.get(stream) ?? "";
    // Those that end with a connection that is cut count too: reconnecting would otherwise make them free.
    const allowed = this.#options.cancelled.allows(client);
    // A proxy's other clients keep their connection: the streams of this one are refused.
    if (this.#client !== undefined && (!this.#cancels.allows() || !allowed)) this.#cut("cancelled calls");
  }

  /** Whether the stream is that of a proxy's client that cancels too many calls: it is reset. */
  #refuses(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): boolean {
    const { clients, cancelled } = this.#options;
    const client = quotaKey(clients.of(this.#address, headers["x-forwarded-for"]));
    this.#clients.set(stream, client);
    if (!cancelled.exceededBy(client)) return false;
    stream.on("error", ignore);
    stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    return true;
  }

  /**
   * Ends the session when the loop has turned. A session that is destroyed while nghttp2 closes one of its streams, which
   * is when that stream's events come, has it freed twice, and the process ends.
   */
  #cut(fault: string): void {
    if (this.#isCut || this.#session.destroyed) return;
    this.#isCut = true;
    const error = new Error(`an HTTP/2 connection was cut: ${fault}`);
    setImmediate(() => {
      if (!this.#session.destroyed) this.#session.destroy(error, constants.NGHTTP2_ENHANCE_YOUR_CALM);
    });
  }
}

/** A stream without this would end the process by its reset. */
function ignore(): void {}
