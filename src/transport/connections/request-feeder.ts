import type { Socket } from "node:net";
import { WorkPacer } from "../../domain/work-pacer.js";
import { readAgain } from "./raw-sockets.js";

const endOfHeaders = Buffer.from("\r\n\r\n");

/** The first bytes of GET and HEAD requests, which have no body. */
const letterG = 0x47;
const letterH = 0x48;

const noBytes = Buffer.alloc(0);

/** Bytes of a body in chunks that the parser is given at once: each chunk is work of its own, and may be of one byte. */
export const turnBytesMax = 8 * 1024;

/** What else the parser is given in pieces costs as much of a turn as so many bytes, each: 16 pieces a turn. */
const pieceBytes = turnBytesMax / 16;

/** Connections of one client that wait for their turn. Each holds up to two packets. */
export const waitingPerClientMax = 32;

/** Of all clients together, which share them: connections whose clients have left wait too, as they are not read. */
export const waitingMax = 512;

/** The turns of all connections whose parser is given more. */
const turns = new WorkPacer();

/** With how many bytes of an end of a head, not whole, `given` ends, behind as many as `before`. */
function endMatched(given: Buffer, before: number): number {
  const tail = given.subarray(1 - endOfHeaders.length);
  let matched = given.length < endOfHeaders.length ? before : 0;
  for (const byte of tail) {
    if (byte === endOfHeaders[matched]) matched = (matched + 1) % endOfHeaders.length;
    else matched = byte === endOfHeaders[0] ? 1 : 0;
  }
  return matched;
}

/** Whether the first bytes of a connection are a whole request without body and more, or much of a body in chunks. */
export function isFedFromStart(bytes: Buffer): boolean {
  const end = bytes.indexOf(endOfHeaders) + endOfHeaders.length;
  if (end + turnBytesMax < bytes.length && /\ntransfer-encoding:/i.test(bytes.toString("latin1", 0, end))) return true;
  const hasNoBody = bytes[0] === letterG || bytes[0] === letterH;
  return hasNoBody && end >= endOfHeaders.length && end < bytes.length;
}

/** What a {@link RequestFeeder} needs of its connection. */
interface FeederHost {
  /** Whether the parser must not be given more: it would make another request, or is paused. */
  isBusy(): boolean;
  /** Whether a body in chunks arrives. */
  inChunks(): boolean;
  /** The client that sends, of which not too many connections may wait. */
  sender(): string;
  /** Called when all bytes have left; resumes with bytes that were held back. */
  proceed(): void;
  /** Bytes are held back until {@link RequestFeeder.feed} is called again. */
  heldBack(): void;
  /** Too many connections of its client wait for their turn. */
  tooManyWait(): void;
}

/**
 * Gives Node's parser the bytes of an HTTP/1.1 connection up to the end of one head at a time, once it is started. The
 * parser would otherwise turn a whole packet into requests. Where bytes are cut makes no difference to the parser.
 *
 * This replaces the one `data` listener of Node's HTTP server on a socket, which Node does not document. If there is
 * none, or more than one, Node keeps the connection. A test runs it on every supported Node.
 */
export class RequestFeeder {
  /** Node's listener, once this feeder has replaced it. */
  #parse: ((chunk: Buffer) => void) | undefined;
  #held: Buffer = noBytes;
  /** How much of an end of a head the parser was given last: it may come in two packets. */
  #endMatched = 0;
  /** Reading is paused because bytes are held. */
  #paused = false;
  /** Held bytes wait for their turn. */
  #waits = false;
  /** What may still be given to this request before the next turn. */
  #bytesLeft = turnBytesMax;
  /** Drops that turn. */
  #leave: (() => void) | undefined;
  #stopped = false;

  constructor(
    private readonly socket: Socket,
    private readonly host: FeederHost,
  ) {}

  get isFeeding(): boolean {
    return this.#parse !== undefined;
  }

  /** Bytes that the parser has not been given yet. */
  get held(): Buffer {
    return this.#held;
  }

  /** Starts feeding, on a connection that is new or not paused. */
  start(): void {
    if (this.#parse !== undefined || this.#stopped) return;
    if (this.socket.destroyed) return;
    const [parse, ...others] = this.socket.listeners("data");
    if (parse === undefined || others.length > 0) return;
    this.#parse = (chunk) => Reflect.apply(parse, this.socket, [chunk]);
    // Node's parser stops reading from the kernel itself once the socket has a listener.
    this.socket.on("data", this.#read);
    this.socket.off("data", parse as (chunk: Buffer) => void);
    // It may have been resumed in this turn.
    readAgain(this.socket);
    this.socket.on("drain", this.host.proceed);
    this.socket.on("resume", this.#resumed);
    // Thousands of clients may leave while their bytes wait.
    this.socket.once("close", this.stop);
  }

  /** Starts feeding now, or once the connection is not paused. */
  readonly startSoon = (): void => {
    if (this.#parse !== undefined || this.#stopped) return;
    // A socket that was paused while the parser read it would not be read again.
    if (!this.socket.isPaused()) {
      this.start();
      return;
    }
    // It may be paused again.
    this.socket.off("resume", this.startSoon);
    this.socket.once("resume", this.startSoon);
  };

  /** Leaves the socket to Node for good. */
  readonly stop = (): void => {
    this.#stopped = true;
    this.#held = noBytes;
    this.#leave?.();
    this.socket.off("data", this.#read);
    this.socket.off("drain", this.host.proceed);
    this.socket.off("resume", this.#resumed);
    this.socket.off("resume", this.startSoon);
    // The socket may be read by another feeder, again and again.
    this.socket.off("close", this.stop);
  };

  /** A request begins, or has been answered: what came before does not count. */
  refill(): void {
    this.#bytesLeft = turnBytesMax;
  }

  /**
   * Gives the parser held bytes, until it has made a request that is not answered yet. While bytes are held, nothing
   * more is read. Bodies in chunks, and packets of very many pieces, are given in turns.
   */
  feed(): void {
    while (this.#held.length > 0 && !this.#waits && !this.host.isBusy()) {
      const bytes = this.#bytesToNextHead();
      if (this.#costOf(bytes) <= this.#bytesLeft) this.#give(bytes);
      else this.#giveInTurn();
    }
    if (this.#held.length > 0) {
      this.#paused = true;
      this.socket.pause();
      this.host.heldBack();
    } else if (this.#paused && !this.#stopped) {
      this.#paused = false;
      this.socket.resume();
    }
  }

  #bytesToNextHead(): number {
    const rest = endOfHeaders.subarray(this.#endMatched);
    if (this.#endMatched > 0 && this.#held.subarray(0, rest.length).equals(rest)) return rest.length;
    const head = this.#held.indexOf(endOfHeaders) + endOfHeaders.length;
    return head < endOfHeaders.length ? this.#held.length : head;
  }

  /** A packet that is given as a whole costs its sender as much. */
  #costOf(bytes: number): number {
    const ofPiece = bytes < this.#held.length ? pieceBytes : 0;
    return this.host.inChunks() ? Math.max(bytes, ofPiece) : ofPiece;
  }

  #give(bytes: number): void {
    const held = this.#held;
    this.#bytesLeft -= this.#costOf(bytes);
    this.#held = held.subarray(bytes);
    const given = held.subarray(0, bytes);
    this.#endMatched = endMatched(given, this.#endMatched);
    this.#parse?.(given);
  }

  #giveInTurn(): void {
    const sender = this.host.sender();
    const waiting = turns.waitingOf(sender);
    if (waiting >= waitingPerClientMax || waiting * turns.owners >= waitingMax || turns.owners > waitingMax) {
      this.host.tooManyWait();
      return;
    }
    this.#waits = true;
    this.#leave = undefined;
    const give = (): void => {
      this.#waits = false;
      this.#bytesLeft = turnBytesMax;
      // Stopped, it holds nothing, and the parser may be another connection's.
      if (this.#held.length > 0 && !this.host.isBusy()) this.#give(Math.min(this.#bytesToNextHead(), turnBytesMax));
      this.feed();
    };
    const leave = turns.push(give, 0, sender);
    // If that was its turn, the next one may be known already.
    this.#leave ??= leave;
  }

  /** Node resumes a socket for its own reasons, such as the end of a response. */
  readonly #resumed = (): void => {
    if (this.#held.length > 0) this.socket.pause();
  };

  readonly #read = (chunk: Buffer): void => {
    this.#held = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    this.feed();
  };
}
