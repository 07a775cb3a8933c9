import { constants, type Http2Session, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { quotaKey } from "../../domain/client-address.js";
import type { ClientQuota } from "../../domain/client-quota.js";
import { RateLimit } from "../../domain/rate-limit.js";
import { type OpenCall, streamsOfConnectionMin, type TurnShares, whenLoopTurned } from "../call/event-loop.js";
import type { TransportLimits } from "../options.js";
import { sweepIntervalMs } from "../stream-guard.js";
import { type CancelledCalls, earlyCancelMs } from "./connection-admission.js";
import type { PortOptions } from "./exchange.js";
import { PeerWatch } from "./peer-watch.js";
import { hasEnded, isWholeResponse, unreadBytes } from "./unread-responses.js";

/**
 * The share of the cancellations that a connection or its client may make at once. Beyond it, each of the connection's
 * calls waits for a whole turn of the event loop, and few are served per turn. A busy process then sees that a call is
 * cancelled before it starts to work on it.
 */
export const cancelledShareOfServedAtOnce = 0.1;

/**
 * What a stream that is refused counts of a cancelled call. Clients that share the address of one that opens too many are
 * refused too: the other streams of their connections must not end with those.
 */
export const refusedStreamCost = 0.1;

/** Header fields of a request that cost its client nothing. Each may take a single byte on the wire. */
export const fieldsFree = 64;
/** So many more count as one cancelled call. */
export const fieldsPerCancellation = 10;

/** For the first GOAWAY: streams that are in transit are still served (RFC 9113, 6.8). */
const lastStreamIdMax = 2 ** 31 - 1;

/** How long a peer may take to reply to the PING after the first GOAWAY. */
const roundTripMaxMs = 250;

/** What the connections of a port share. */
export interface SharedByConnections {
  readonly cancelled: CancelledCalls;
  readonly turns: TurnShares;
  /** Counts the streams that are open. */
  readonly openStreams: ClientQuota;
}

/**
 * One HTTP/2 session. It shares the event loop with other sessions, and ends when its peer is gone or exceeds a limit.
 */
export class Http2Connection implements OpenCall {
  readonly #peer: PeerWatch;
  /** The peer's. Reading it from a session's socket costs more than the rest of a call. */
  readonly address: string;
  /** The client's quota key. On a trusted proxy's connection each stream has its own. */
  readonly #client: string | undefined;
  readonly #cancels: RateLimit;
  /** Streams served in this turn of the event loop. */
  #served = 0;
  /** Streams that wait for another turn, oldest first. */
  #waiting: { readonly stream: ServerHttp2Stream; readonly serve: () => void }[] = [];
  /** How many of them, from the oldest on, have waited for a whole turn. */
  #waited = 0;
  /** {@link loopTurned} will be called. */
  #awaitsTurn = false;
  /**
   * Every stream that has not ended, unordered. An array, because V8 retains everything that a growing Set has held while an old object refers to it.
   */
  readonly #open: OpenStream[] = [];
  /** Their header fields, by client. */
  readonly #fields = new Map<string, number>();
  /** When the last of them ended, in `performance.now()` time. */
  #idleSinceMs = performance.now();
  /** The connection is about to be closed: nothing more is served. */
  #isCut = false;

  constructor(
    private readonly session: Http2Session,
    private readonly options: PortOptions,
    private readonly shared: SharedByConnections,
  ) {
    const { limits, clients } = options;
    this.#peer = new PeerWatch(session, limits);
    this.address = session.socket.remoteAddress ?? "";
    this.#client = clients.isProxy(this.address) ? undefined : quotaKey(this.address);
    this.#cancels = new RateLimit(limits.http2CancelBurstMax, limits.http2CancelsPerSecondMax);
    const controlFrames = new RateLimit(limits.http2ControlFramesPerSecondMax, limits.http2ControlFramesPerSecondMax);
    const countControlFrame = (): void => {
      if (!controlFrames.allows()) this.#cut("PING and SETTINGS frames");
    };
    session.on("ping", countControlFrame);
    session.on("remoteSettings", countControlFrame);
  }

  /**
   * Ends the session without refusing streams that its peer opens before it learns of the end. The first GOAWAY is sent
   * with the next stream, because a client that waits for a response opens no other. (Node's client refuses its own
   * unsent stream when GOAWAY arrives, and connect-node does not retry.) The GOAWAY that names the last stream follows a
   * round trip later. Open streams continue. Without a next stream, this starts when none was opened for `drainIdleMs`.
   *
   * A session without streams gets the second GOAWAY only: after a first one, Node reads neither new streams nor the
   * reply to a PING. Streams that arrive too late are refused, and safe to retry.
   */
  close(): void {
    const { session } = this;
    let late: NodeJS.Timeout | undefined;
    const close = (): void => {
      clearTimeout(late);
      session.off("stream", announce);
      if (!session.destroyed) session.close();
    };
    const announce = (): void => {
      clearTimeout(idle);
      session.off("stream", announce);
      if (session.closed || session.destroyed) return;
      session.goaway(constants.NGHTTP2_NO_ERROR, lastStreamIdMax);
      late = setTimeout(close, roundTripMaxMs);
      // A failed write ends the session within the call before, and a session that has ended cannot ping.
      if (!session.destroyed) session.ping(close);
    };
    const endSilently = (): void => {
      if (late !== undefined) return;
      if (this.#open.length === 0) close();
      else announce();
    };
    const idleMs = this.#open.length === 0 ? performance.now() - this.#idleSinceMs : 0;
    // Timers run before arrived data is read. After a standstill, a stream may be among that data.
    const idle = setTimeout(() => setImmediate(endSilently), Math.max(0, this.options.limits.drainIdleMs - idleMs));
    session.once("stream", announce);
  }

  /**
   * The peer opened a stream. `serve` is called at once, or in a later turn of the event loop if the stream still
   * exists. Streams of clients that cancel too many calls are reset, as are those with too many `fields`.
   */
  streamOpened(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, fields: number, serve: () => void): void {
    if (this.#isCut) {
      // It ends with the connection, and counts like the others.
      if (this.#client !== undefined) this.shared.cancelled.allows(this.#client);
      return;
    }
    const client = this.#client ?? quotaKey(this.options.clients.of(this.address, headers["x-forwarded-for"]));
    if (this.#client === undefined && this.shared.cancelled.exceededBy(client)) {
      stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
      return;
    }
    this.#peer.streamOpened();
    const isAdmitted = this.#admits(client);
    this.#open.push(new OpenStream(stream, client, fields, isAdmitted, this.#open.length, this.#closed));
    const open = (this.#fields.get(client) ?? 0) + fields;
    this.#fields.set(client, open);
    if (!this.#charge(client, fields - fieldsFree)) return;
    if (!stream.endAfterHeaders) {
      const charge = (_headers: unknown, _flags: unknown, raw: readonly string[]) =>
        this.#charge(client, raw.length / 2);
      stream.once("trailers", charge);
    }
    if (open > this.options.limits.http2FieldsOpenMax) {
      stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
      return;
    }
    if (!isAdmitted) {
      // It counts a little as a cancelled call, so that nobody opens them again and again.
      stream.close(constants.NGHTTP2_REFUSED_STREAM);
      return;
    }
    const atOnce = this.#waiting.length === 0 && !this.#cancelsOften();
    if (atOnce && this.shared.turns.take(this.#served)) {
      this.#serve(serve);
      return;
    }
    this.#waiting.push({ stream, serve });
    this.#awaitTurn();
  }

  /** Counts a stream that opens. False: too many are open. */
  #admits(client: string): boolean {
    try {
      this.shared.openStreams.add(client, 1);
      return true;
    } catch {
      return false;
    }
  }

  /** Counts header fields. False: they were beyond what the client may send, and end a connection of its own. */
  #charge(client: string, fields: number): boolean {
    let isAllowed = true;
    for (let n = 0; n < fields; n += fieldsPerCancellation)
      isAllowed = this.shared.cancelled.allows(client) && isAllowed;
    if (isAllowed || this.#client === undefined) return true;
    this.#cut("header fields");
    return false;
  }

  loopTurned(): void {
    this.#awaitsTurn = false;
    this.#served = 0;
    if (this.#waiting.length > 0 && !this.#isCut) this.#serveWaiting();
  }

  /**
   * Called at intervals: ends streams and sessions that the peer abandoned. `scarce`: few connections are left.
   * @returns the number of streams that were looked at
   */
  check(nowMs: number, scarce: boolean): number {
    const checked = this.#open.length;
    if (this.session.destroyed) return 0;
    // Backwards, because a stream that closes is replaced by the last one.
    for (let i = checked - 1; i >= 0; i--) this.#open[i]?.check(nowMs, this.options.limits);
    if (this.session.destroyed) return checked;
    const fault = this.#peer.check(nowMs, scarce, this.#open.length);
    if (fault !== undefined) this.#cut(fault);
    return checked;
  }

  #serve(serve: () => void): void {
    this.#served++;
    this.#awaitTurn();
    serve();
  }

  #awaitTurn(): void {
    if (this.#awaitsTurn) return;
    this.#awaitsTurn = true;
    whenLoopTurned(this);
  }

  #serveWaiting(): void {
    const waiting = this.#waiting;
    const cancelsOften = this.#cancelsOften();
    const end = cancelsOften ? this.#waited : waiting.length;
    let next = 0;
    for (const { stream, serve } of waiting.slice(0, end)) {
      if (!stream.destroyed) {
        if (cancelsOften && this.#served >= streamsOfConnectionMin) break;
        if (!this.shared.turns.take(this.#served)) break;
        this.#serve(serve);
      }
      next++;
    }
    this.#waiting = waiting.slice(next);
    this.#waited = this.#waiting.length;
    if (this.#waited > 0) this.#awaitTurn();
  }

  /** Whether the connection, or its client on all connections, has lately cancelled many calls. */
  #cancelsOften(): boolean {
    if (this.#client === undefined) return false;
    const share = Math.max(this.#cancels.usedShare, this.shared.cancelled.usedShareOf(this.#client));
    return share > cancelledShareOfServedAtOnce;
  }

  readonly #closed = (gone: OpenStream): void => {
    this.#countCancelled(gone);
    if (gone.isAdmitted) this.shared.openStreams.remove(gone.client, 1);
    const left = (this.#fields.get(gone.client) ?? 0) - gone.fields;
    if (left > 0) this.#fields.set(gone.client, left);
    else this.#fields.delete(gone.client);
    const last = this.#open.pop();
    if (this.#open.length === 0) this.#idleSinceMs = performance.now();
    if (last === undefined || last === gone) return;
    this.#open[gone.index] = last;
    last.index = gone.index;
  };

  /**
   * Counts a stream that ended early by a reset from either side (a client can provoke ours), or with its connection.
   */
  #countCancelled({ stream, client, openedMs, isAdmitted }: OpenStream): void {
    // It was reset, with an error or (a client may do so) without one before its response was complete.
    const wasCancelled = stream.rstCode !== constants.NGHTTP2_NO_ERROR || stream.aborted;
    if (!wasCancelled || performance.now() - openedMs >= earlyCancelMs) return;
    // Streams that end with a closed connection count too; otherwise reconnecting would avoid the limit.
    const amount = isAdmitted ? 1 : refusedStreamCost;
    const allowed = this.shared.cancelled.allows(client, amount);
    // Other clients of a proxy keep the connection: only this client's streams are refused.
    if (this.#client !== undefined && (!this.#cancels.allows(amount) || !allowed)) this.#cut("cancelled calls");
  }

  /**
   * Ends the session after the loop has turned. Node frees a stream twice, and crashes, if its session is destroyed
   * while nghttp2 closes the stream; the stream's events are emitted during that time.
   */
  #cut(fault: string): void {
    if (this.#isCut || this.session.destroyed) return;
    this.#isCut = true;
    const error = new Error(`an HTTP/2 connection was cut: ${fault}`);
    setImmediate(() => {
      if (!this.session.destroyed) this.session.destroy(error, constants.NGHTTP2_ENHANCE_YOUR_CALM);
    });
  }
}

/**
 * An HTTP/2 stream, which is checked until its end: readers that take nothing are reset, and clients that keep sending
 * after the whole response are stopped.
 */
class OpenStream {
  /** In `performance.now()` time. */
  readonly openedMs = performance.now();
  /** Bytes that the peer had not taken at the last check. */
  #pendingBytes = 0;
  /** When {@link #pendingBytes} last increased from 0 or decreased, in `performance.now()` time. */
  #takenMs = 0;

  /** `closed` is called once, with this stream. */
  constructor(
    readonly stream: ServerHttp2Stream,
    /** The quota key. */
    readonly client: string,
    /** Header fields of its request. */
    readonly fields: number,
    /** It counts among the streams of its client. */
    readonly isAdmitted: boolean,
    /** Its index in its connection's list. */
    public index: number,
    closed: (stream: OpenStream) => void,
  ) {
    stream.on("close", () => closed(this));
    stream.on("finish", () => {
      // The last frames leave at the end of the turn; a reset in the same turn could overtake them.
      if (!stream.readableEnded) setImmediate(() => this.#stopSender());
    });
  }

  /** Called at intervals. */
  check(nowMs: number, { stalledReaderMs, breakOffMs }: TransportLimits): void {
    const { stream } = this;
    if (hasEnded(stream)) {
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

  /** Resets the stream with NO_ERROR if the response has left but the request continues (RFC 9113, 8.1). */
  #stopSender(): void {
    const { stream } = this;
    if (stream.destroyed || stream.closed || stream.state.localClose !== 1) return;
    stream.close(constants.NGHTTP2_NO_ERROR);
  }
}
