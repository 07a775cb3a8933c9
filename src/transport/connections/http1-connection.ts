import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { EarlyReader, type RepeatedGets } from "../http/repeated-gets.js";
import type { TransportLimits } from "../limits.js";
import { earlyCancelMs } from "./cancelled-calls.js";
import { closeLingering } from "./lingering-close.js";

const endOfHeaders = Buffer.from("\r\n\r\n");

/** The methods GET and HEAD begin so, whose requests have no body. */
const letterG = 0x47;
const letterH = 0x48;

const ignoreError = (): void => {};

/** Answers a request whose turn has come. */
export type Http1Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** What an {@link Http1Connection} needs. */
export interface Http1ConnectionOptions {
  /** Undefined: connections are left to Node's parser. */
  readonly repeated: RepeatedGets | undefined;
  readonly limits: TransportLimits;
  /** The client of `request` went away early, before it had its response; its connection had come from `remoteAddress`. */
  cancelled(request: IncomingMessage, remoteAddress: string): void;
  /** A single packet held more requests than may wait. */
  flooded(): void;
}

/**
 * An HTTP/1.1 connection. Its requests are answered one after the other: one that arrives before the response to the
 * request before it has left waits, and nothing of it is computed. A connection with a waiting request is not read.
 *
 * Node's parser makes requests of all that it is given at once, up to 64 KiB. So a connection that pipelines, and one
 * that repeats itself, is read by an {@link EarlyReader}, which gives the parser one request at a time and holds back what
 * arrives while a request is being answered. That makes what is handed on dearer (Node's parser otherwise reads from the
 * kernel itself), which is why only such connections are. Of the others, more than `unansweredRequestsMax` requests in one
 * packet end the connection, unless it begins with them.
 */
export class Http1Connection {
  readonly #socket: Socket;
  readonly #reader: EarlyReader;
  readonly #limits: TransportLimits;
  readonly #cancelled: Http1ConnectionOptions["cancelled"];
  readonly #clientAddress: string;
  /** The newest request whose handling started, until it is answered and has arrived whole. */
  #request: IncomingMessage | undefined;
  /** The response that is under way. */
  #response: ServerResponse | undefined;
  /** When that started, in `performance.now()` time. */
  #startedMs = 0;
  /** The client wants the connection to stay open after the response that is under way. */
  #clientKeepsAlive = false;
  /** What is to be done, in this order, each once the response before it has left. */
  readonly #waiting: (() => void)[] = [];
  /** Nothing is read because something waits. */
  #paused = false;
  /** Requests came before the response to the one before them had been made. */
  #pipelines = false;
  /** The socket's `bytesRead` when the last response had left. */
  #bytesReadAtRest = 0;
  /** When the last response had left, or the connection was made, in `performance.now()` time. */
  #restSinceMs = performance.now();
  #draining = false;
  /** The socket belongs to another protocol, or ends: nothing more is answered here. */
  #released = false;

  readonly #flooded: () => void;

  constructor(socket: Socket, options: Http1ConnectionOptions) {
    this.#flooded = options.flooded;
    this.#socket = socket;
    this.#reader = new EarlyReader(socket, options.repeated, {
      isBusy: () => this.#isBusy(),
      isResponding: () => this.#response !== undefined,
      proceed: this.#proceed,
      answered: () => {
        this.#restSinceMs = performance.now();
      },
      heldBack: () => {
        this.#pause();
        this.#settleKeepAlive();
      },
    });
    this.#limits = options.limits;
    this.#cancelled = options.cancelled;
    this.#clientAddress = socket.remoteAddress ?? "";
    // How Node ends a connection after its last response.
    socket.destroySoon = () => this.#close();
  }

  /** Reads this connection before the parser from now on, or as soon as it is not paused. */
  readBeforeParser(): void {
    this.#reader.startSoon();
  }

  /**
   * Node's server listens to the socket, and nothing was read since. The connection is read before the parser if it is to
   * be, or if the bytes that will be read `first` pipeline.
   */
  started(first: Buffer | undefined, readBeforeParser: boolean): void {
    if (readBeforeParser || (first !== undefined && holdsMoreThanOne(first))) this.#reader.start();
  }

  /** Node's parser made a request: `handle` is called when its turn has come, which may be never. */
  accept(request: IncomingMessage, response: ServerResponse, handle: Http1Handler): void {
    if (this.#released) return;
    if (this.#response === undefined && this.#waiting.length === 0 && !this.#draining) {
      this.#begin(request, response, handle);
    } else {
      this.#wait(() => this.#begin(request, response, handle));
    }
  }

  /**
   * Node's parser let go of the socket, for an upgrade or CONNECT; `head` is what it did not read. `start` gets all that
   * was not read when its turn has come.
   */
  upgrade(head: Buffer, start: (head: Buffer) => void): void {
    const socket = this.#socket;
    // Node removed its own listeners.
    socket.off("error", ignoreError);
    socket.on("error", ignoreError);
    if (this.#released) {
      socket.resume();
      return;
    }
    const rest = Buffer.concat([head, this.#reader.held]);
    this.#release();
    if (this.#response === undefined && this.#waiting.length === 0) {
      start(rest);
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
      start(rest);
    });
  }

  /** What arrived is no request. `lastBytes` are the response to it, with which the connection ends. */
  malformed(lastBytes: Uint8Array): void {
    if (this.#released) return;
    if (!this.#socket.writable) {
      this.#socket.destroy();
      return;
    }
    const broken = this.#request?.complete === false;
    if (this.#waiting.length > 0 || (this.#response !== undefined && !broken)) {
      this.#wait(() => this.#close(lastBytes));
    } else if (!broken) {
      this.#close(lastBytes);
    } else if (this.#response === undefined) {
      // The broken request has its response already.
      this.#close();
    } else if (this.#response.headersSent) {
      this.#socket.destroy();
    } else {
      this.#close(lastBytes);
    }
  }

  /** Ends the connection: with the response to the last request that has arrived, or when it has been idle for a while. */
  drain(): void {
    this.#draining = true;
    if (this.#response === undefined) this.#closeWhenIdle();
    else this.#settleKeepAlive();
  }

  #begin(request: IncomingMessage, response: ServerResponse, handle: Http1Handler): void {
    this.#request = request;
    this.#response = response;
    this.#startedMs = performance.now();
    response.on("close", this.#answered);
    this.#reader.observe(request, response);
    this.#clientKeepsAlive = response.shouldKeepAlive;
    if (this.#draining) this.#settleKeepAlive();
    handle(request, response);
  }

  /** The response has left, or its connection has closed. */
  readonly #answered = (): void => {
    if (this.#socket.destroyed) this.#countCancelled();
    this.#response = undefined;
    if (this.#request?.complete === true) this.#request = undefined;
    this.#bytesReadAtRest = this.#socket.bytesRead;
    this.#restSinceMs = performance.now();
    if (this.#waiting.length > 0 || this.#reader.held.length > 0) setImmediate(this.#proceed);
    else if (this.#draining) this.#closeWhenIdle();
  };

  #countCancelled(): void {
    const isEarly = performance.now() - this.#startedMs < earlyCancelMs;
    if (!isEarly || this.#request === undefined || this.#response?.writableFinished !== false) return;
    this.#cancelled(this.#request, this.#clientAddress);
  }

  #wait(begin: () => void): void {
    if (this.#waiting.length >= this.#limits.unansweredRequestsMax) {
      this.#release();
      this.#socket.destroy();
      this.#flooded();
      return;
    }
    // The client may have a response before the socket tells that it was written.
    if (this.#waiting.length > 0 || this.#response?.writableEnded !== true) this.#pipelines = true;
    this.#waiting.push(begin);
    this.#pause();
    this.#settleKeepAlive();
    if (this.#response === undefined) setImmediate(this.#proceed);
  }

  /** Does what comes next: one thing in a turn of the event loop, so that other connections have theirs. */
  readonly #proceed = (): void => {
    if (this.#response !== undefined || this.#socket.destroyed) return;
    const next = this.#waiting.shift();
    if (next !== undefined) next();
    else if (this.#released) return;
    else this.#reader.feed();
    if (this.#released) return;
    if (this.#waiting.length > 0 || this.#reader.held.length > 0) {
      if (this.#response === undefined && !this.#socket.writableNeedDrain) setImmediate(this.#proceed);
    } else {
      this.#resume();
    }
  };

  /** Stops reading, once the parser is through with what it was given: it may let go of the socket before. */
  #pause(): void {
    if (this.#paused || this.#released) return;
    this.#paused = true;
    process.nextTick(() => {
      if (!this.#paused || this.#released) return;
      this.#socket.off("resume", this.#resumed);
      this.#socket.on("resume", this.#resumed);
      this.#socket.pause();
    });
  }

  /** Reads on; if the connection pipelines, from now on here, so that at most one request is parsed at a time. */
  #resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#socket.resume();
  }

  readonly #resumed = (): void => {
    if (this.#paused) {
      // Node resumes a socket for reasons of its own, such as the end of a response.
      this.#socket.pause();
      return;
    }
    this.#socket.off("resume", this.#resumed);
    if (this.#pipelines) this.#reader.start();
  };

  /** Leaves the socket to another protocol, or to its end. */
  #release(): void {
    this.#released = true;
    this.#reader.stop();
    this.#socket.off("resume", this.#resumed);
  }

  #close(lastBytes?: Uint8Array): void {
    if (this.#released && this.#socket.writableEnded) return;
    this.#waiting.length = 0;
    this.#release();
    closeLingering(this.#socket, this.#limits.lingerMs, lastBytes);
  }

  /** While the server drains, the last response on a connection says so, unless a request has arrived behind it. */
  #settleKeepAlive(): void {
    const response = this.#response;
    if (!this.#draining || response === undefined || response.headersSent) return;
    response.shouldKeepAlive = this.#clientKeepsAlive && (this.#waiting.length > 0 || this.#reader.held.length > 0);
  }

  /**
   * Closes once nothing was asked for `drainIdleMs`, the time before the drain included: a client that asks so seldom is
   * no likelier to ask just then. Sees that only after all that arrived has been read, which timers do not wait for.
   */
  #closeWhenIdle(waitMs = this.#restSinceMs + this.#limits.drainIdleMs - performance.now()): void {
    const timer = setTimeout(
      () => {
        setImmediate(() => {
          if (this.#response !== undefined || this.#released || this.#socket.destroyed) return;
          if (this.#isIdle()) this.#close();
          else this.#closeWhenIdle(this.#limits.drainIdleMs);
        });
      },
      Math.max(0, waitMs),
    );
    timer.unref();
  }

  #isIdle(): boolean {
    if (this.#waiting.length > 0 || this.#reader.held.length > 0) return false;
    return this.#reader.isBetweenRequests || this.#socket.bytesRead === this.#bytesReadAtRest;
  }

  /** Whether the parser must not be given more: it would make another request of it, or is paused. */
  #isBusy(): boolean {
    if (this.#waiting.length > 0 || this.#socket.writableNeedDrain || this.#socket.destroyed) return true;
    return this.#response !== undefined && this.#request?.complete === true;
  }
}

function holdsMoreThanOne(bytes: Buffer): boolean {
  const end = bytes.indexOf(endOfHeaders) + endOfHeaders.length;
  const hasNoBody = bytes[0] === letterG || bytes[0] === letterH;
  return hasNoBody && end >= endOfHeaders.length && end < bytes.length;
}
