import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { TransportLimits } from "../options.js";
import { earlyCancelMs } from "./connection-admission.js";
import { closeLingering, readAgain } from "./raw-sockets.js";
import { isFedFromStart, RequestFeeder, turnBytesMax } from "./request-feeder.js";

/** Bytes of a packet with a body in chunks behind another request: a chunk of a byte takes some hundred in memory. */
export const waitingChunksBytesMax = 4 * 1024;

const ignoreError = (): void => {};

function isInChunks(request: IncomingMessage): boolean {
  return request.headers["transfer-encoding"] !== undefined;
}

/** Serves a request whose turn has come. */
export type Http1Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** What an {@link Http1Connection} reports to its server. */
export interface ConnectionEvents {
  /** A client cancelled a request early. */
  cancelled(client: string): void;
  /** A single packet held more requests than may wait. */
  flooded(): void;
  /** The quota key of a request's client; without a request, that of the connection's. */
  clientOf(request: IncomingMessage | undefined, remoteAddress: string): string;
  /** The last bytes for a client that sends in too many pieces on too many connections. */
  tooManyWait(request: IncomingMessage | undefined): Uint8Array;
}

/**
 * An HTTP/1.1 connection. Requests are answered one at a time: a request that arrives before the previous response has
 * left waits, and nothing of it is computed. A connection with a waiting request is not read.
 *
 * Node's parser turns everything that it is given at once, up to 64 KiB, into requests, or into pieces of a body that is
 * sent in chunks. So a connection that sends either, but for small bodies, is read by a {@link RequestFeeder}, which
 * gives the parser one request at a time, and bodies in turns. This makes other requests dearer, because Node's parser
 * otherwise reads from the kernel itself. On other connections, more than `unansweredRequestsMax` requests in one packet
 * end the connection, unless it begins with them.
 */
export class Http1Connection {
  readonly #feeder: RequestFeeder;
  readonly #remoteAddress: string;
  /** The newest request that is being served, until it is answered and has arrived completely. */
  #request: IncomingMessage | undefined;
  /** It waited for its turn, and was the newest then. */
  #hasWaited = false;
  /** Its client sends in too many pieces. */
  #isRefused = false;
  /** The newest request that waits for its turn. */
  #newestWaiting: IncomingMessage | undefined;
  /** The response in progress. */
  #response: ServerResponse | undefined;
  /** When it started, in `performance.now()` time. */
  #startedMs = 0;
  /** The client wants to keep the connection after the response in progress. */
  #clientKeepsAlive = false;
  /** Work to do in this order, each once the previous response has left. */
  readonly #waiting: (() => void)[] = [];
  /** The bytes that the parser had been given when the last response had left. */
  #bytesFedAtRest = 0;
  /** When the last response had left, or the connection was made, in `performance.now()` time. */
  #restSinceMs = performance.now();
  #draining = false;
  /** The socket belongs to another protocol, or ends; nothing more is served here. */
  #released = false;

  constructor(
    private readonly socket: Socket,
    private readonly limits: TransportLimits,
    private readonly events: ConnectionEvents,
  ) {
    this.#feeder = new RequestFeeder(socket, {
      isBusy: () => this.#isBusy(),
      inChunks: () => this.#request?.complete === false && isInChunks(this.#request),
      sender: () => this.#client(),
      proceed: this.#proceed,
      heldBack: () => this.#settleKeepAlive(),
      tooManyWait: () => {
        this.#isRefused = true;
        this.malformed(events.tooManyWait(this.#request));
      },
    });
    this.#remoteAddress = socket.remoteAddress ?? "";
    // How Node ends a connection after its last response.
    socket.destroySoon = () => this.#close();
  }

  /** Gives the parser one request at a time from now on, or once the connection is not paused. */
  feedOneByOne(): void {
    this.#feeder.startSoon();
  }

  /**
   * Called once Node's server listens to the socket, before anything is read. The parser is given one request at a time
   * if that is required, or if the `first` bytes are many.
   */
  started(first: Buffer | undefined, oneByOne: boolean): void {
    this.#bytesFedAtRest = this.socket.bytesRead - (first?.length ?? 0);
    if (oneByOne || (first !== undefined && isFedFromStart(first))) this.#feeder.start();
  }

  /** Node's parser made a request. `handle` is called when its turn comes, if ever. */
  accept(request: IncomingMessage, response: ServerResponse, handle: Http1Handler): void {
    if (this.#released) return;
    if (isInChunks(request)) this.#feedChunks(request);
    if (this.#response === undefined && this.#waiting.length === 0 && !this.#draining) {
      this.#begin(request, response, handle);
    } else {
      this.#newestWaiting = request;
      if (this.#holdsChunks(request)) this.#cut();
      else this.#wait(() => this.#begin(request, response, handle));
    }
  }

  /**
   * Node's parser released the socket for an upgrade or CONNECT; `head` is what it did not read. `start` gets all
   * unread bytes when its turn comes.
   */
  upgrade(head: Buffer, start: (head: Buffer) => void): void {
    const { socket } = this;
    // Node removed its own listeners.
    socket.off("error", ignoreError);
    socket.on("error", ignoreError);
    if (this.#released) {
      socket.resume();
      return;
    }
    const rest = Buffer.concat([head, this.#feeder.held]);
    this.#release();
    const begin = (): void => {
      readAgain(socket);
      start(rest);
    };
    if (this.#response === undefined && this.#waiting.length === 0) {
      begin();
      return;
    }
    const drained = (): void => {
      this.#response?.emit("drain");
    };
    const cut = (): void => {
      socket.destroy();
    };
    socket.on("drain", drained);
    socket.on("timeout", cut);
    this.#waiting.push(() => {
      socket.off("drain", drained);
      socket.off("timeout", cut);
      begin();
    });
  }

  /** The newest request took too long to arrive. `lastBytes` is the response, after which the connection ends. */
  tooSlow(lastBytes: Uint8Array): void {
    const newest = this.#newestWaiting ?? this.#request;
    if (newest === undefined || newest.complete) this.malformed(lastBytes);
    else this.#endIfSlow(newest, lastBytes);
  }

  /**
   * Ends the connection, unless the request has waited for its turn, and has its time from then on. Nothing is read
   * before, nor while its response is not taken. Node has forgotten the request.
   */
  #endIfSlow(request: IncomingMessage, lastBytes: Uint8Array): void {
    if (request.complete || this.#released || this.socket.destroyed) return;
    const { requestReceiveTimeoutMs } = this.limits;
    const isHeldBack = this.#newestWaiting === request || this.socket.writableNeedDrain;
    const sinceTurnMs = this.#hasWaited ? performance.now() - this.#startedMs : requestReceiveTimeoutMs;
    const leftMs = requestReceiveTimeoutMs - (isHeldBack ? 0 : sinceTurnMs);
    if (leftMs <= 0) this.malformed(lastBytes);
    else setTimeout(() => this.#endIfSlow(request, lastBytes), leftMs).unref();
  }

  /** The parser rejected the input. `lastBytes` is the response, after which the connection ends. */
  malformed(lastBytes: Uint8Array): void {
    if (this.#released) return;
    if (this.#newestWaiting?.complete === false) {
      // It would wait for the rest of its body in vain.
      this.#newestWaiting = undefined;
      this.#waiting.pop();
      this.#waiting.push(() => this.#close(lastBytes));
      return;
    }
    if (!this.socket.writable) {
      this.socket.destroy();
      return;
    }
    const broken = this.#request?.complete === false;
    if (this.#waiting.length > 0 || (this.#response !== undefined && !broken)) {
      this.#wait(() => this.#close(lastBytes));
    } else if (broken && this.#response?.headersSent === true) {
      this.socket.destroy();
    } else {
      // The malformed request may have its response already.
      this.#close(broken && this.#response === undefined ? undefined : lastBytes);
    }
  }

  /** Ends the connection after the response to the last request that has arrived, or after a time without requests. */
  drain(): void {
    this.#draining = true;
    if (this.#response === undefined) this.#closeWhenIdle();
    else this.#settleKeepAlive();
  }

  #begin(request: IncomingMessage, response: ServerResponse, handle: Http1Handler): void {
    this.#request = request;
    this.#hasWaited = this.#newestWaiting === request;
    if (this.#hasWaited) this.#newestWaiting = undefined;
    this.#feeder.refill();
    this.#response = response;
    this.#startedMs = performance.now();
    response.on("close", this.#answered);
    this.#clientKeepsAlive = response.shouldKeepAlive;
    if (this.#draining) this.#settleKeepAlive();
    handle(request, response);
  }

  /** The response has left, or its connection has closed. */
  readonly #answered = (): void => {
    if (this.socket.destroyed) this.#countCancelled();
    this.#response = undefined;
    if (this.#request?.complete === true) {
      this.#request = undefined;
      this.#feeder.refill();
    } else {
      // The rest of a body that was refused is no other request.
      this.#request?.once("end", this.#markRest);
    }
    this.#markRest();
    if (this.#waiting.length > 0 || this.#feeder.held.length > 0) setImmediate(this.#proceed);
    if (this.#draining) this.#closeWhenIdle();
  };

  readonly #markRest = (): void => {
    this.#bytesFedAtRest = this.#bytesFed;
    this.#restSinceMs = performance.now();
  };

  #countCancelled(): void {
    const isEarly = performance.now() - this.#startedMs < earlyCancelMs;
    if (!isEarly || this.#isRefused || this.#request === undefined || this.#response?.writableFinished !== false)
      return;
    this.events.cancelled(this.#client());
  }

  #client(): string {
    return this.events.clientOf(this.#request, this.#remoteAddress);
  }

  #wait(begin: () => void): void {
    if (this.#waiting.length >= this.limits.unansweredRequestsMax) {
      this.#cut();
      return;
    }
    // The client may have a response before the socket reports that it was written.
    const pipelines = this.#waiting.length > 0 || this.#response?.writableEnded !== true;
    this.#waiting.push(begin);
    if (pipelines) this.#feedSoon();
    this.#settleKeepAlive();
    if (this.#response === undefined) setImmediate(this.#proceed);
  }

  /** Starts to feed once the parser has processed what it was given; it may release the socket before. */
  #feedSoon(): void {
    process.nextTick(() => this.#feeder.startSoon());
  }

  /** Feeds the body of `request`, unless all of it was in a small packet with the head: feeding makes requests dearer. */
  #feedChunks(request: IncomingMessage): void {
    if (this.#bytesFed - this.#bytesFedAtRest > turnBytesMax) this.#feedSoon();
    else setImmediate(() => !request.complete && this.#feeder.startSoon());
  }

  /**
   * Whether the parser may have made very many pieces of `request`, to be kept while another is answered: where a packet
   * holds both, it was not fed.
   */
  #holdsChunks(request: IncomingMessage): boolean {
    const isBehind = this.#response?.writableEnded === false && isInChunks(request);
    return isBehind && !this.#feeder.isFeeding && this.#bytesFed - this.#bytesFedAtRest > waitingChunksBytesMax;
  }

  /** Does the next piece of work: one per turn of the event loop, so that other connections get theirs. */
  readonly #proceed = (): void => {
    if (this.socket.destroyed) return;
    if (this.#response === undefined) this.#waiting.shift()?.();
    if (this.#released) return;
    // Also the body of a request whose turn has come, or which is being answered.
    this.#feeder.feed();
    if (this.#released) return;
    const hasMore = this.#waiting.length > 0 || this.#feeder.held.length > 0;
    if (hasMore && this.#response === undefined && !this.socket.writableNeedDrain) setImmediate(this.#proceed);
  };

  #cut(): void {
    this.#release();
    this.socket.destroy();
    this.events.flooded();
  }

  /** Leaves the socket to another protocol, or to its end. */
  #release(): void {
    this.#released = true;
    this.#feeder.stop();
  }

  #close(lastBytes?: Uint8Array): void {
    if (this.#released && this.socket.writableEnded) return;
    this.#waiting.length = 0;
    this.#release();
    closeLingering(this.socket, this.limits.lingerMs, lastBytes);
  }

  /** While draining, the last response of a connection announces its end, unless another request has arrived. */
  #settleKeepAlive(): void {
    const response = this.#response;
    if (!this.#draining || response === undefined || response.headersSent) return;
    // What is held before a request has arrived completely is its body.
    const another = this.#waiting.length > 0 || (this.#request?.complete === true && this.#feeder.held.length > 0);
    response.shouldKeepAlive = this.#clientKeepsAlive && another;
  }

  /**
   * Closes the connection after `drainIdleMs` without requests, counting the time before the drain: a client that
   * rarely sends requests is unlikely to send one just then. Checks only after all arrived data was read, because
   * timers do not wait for it.
   */
  #closeWhenIdle(waitMs = this.#restSinceMs + this.limits.drainIdleMs - performance.now()): void {
    const timer = setTimeout(
      () => {
        setImmediate(() => {
          if (this.#response !== undefined || this.#released || this.socket.destroyed) return;
          if (this.#isIdle()) this.#close();
          else this.#closeWhenIdle(this.limits.drainIdleMs);
        });
      },
      Math.max(0, waitMs),
    );
    timer.unref();
  }

  #isIdle(): boolean {
    return this.#waiting.length === 0 && this.#feeder.held.length === 0 && this.#bytesFed === this.#bytesFedAtRest;
  }

  get #bytesFed(): number {
    return this.socket.bytesRead - this.#feeder.held.length;
  }

  /** Whether the parser must not be given more: it would make another request, or is paused. */
  #isBusy(): boolean {
    if (this.#waiting.length > 0 || this.socket.writableNeedDrain || this.socket.destroyed) return true;
    return this.#response !== undefined && this.#request?.complete === true;
  }
}
