import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import { Socket } from "node:net";
import { performance } from "node:perf_hooks";
import type { EncodedResponse } from "../../domain/encoded-response.js";
import { type ContentCoding, chooseCoding } from "../call/content-coding.js";
import { RequestCall } from "../call/server-call.js";
import type { CommonHeaders } from "../common-headers.js";
import type { ClientAddresses } from "../connections/client-addresses.js";
import { clientLeft } from "../errors.js";
import type { JsonBodies, UnaryTarget } from "./json-response.js";

/** The number of requests that are remembered by their text. When full, all are dropped. */
export const rememberedTextsMax = 4_096;

/** Longer requests are parsed each time. */
export const rememberedTextLengthMax = 1_024;

/** Larger responses take the usual path, where slow readers are watched. In bytes of JSON. */
export const wholeBodyBytesMax = 65_536;

/** Of this many requests of a connection, the first {@link watchedRequests} are checked for repetition. */
const watchEveryRequests = 256;

/** How many consecutive requests are checked. */
const watchedRequests = 16;

/** A connection with this many repetitions among the checked requests is read before the parser. */
const repetitionsMin = 8;

const endOfHeaders = Buffer.from("\r\n\r\n");

const noBytes = Buffer.alloc(0);

/** Whether a response is small enough, and has no metadata. */
export function isRepeatable(encoded: EncodedResponse): boolean {
  return encoded.metadata === undefined && encoded.json().length <= wholeBodyBytesMax;
}

/** Everything that the response to a remembered request depends on. */
interface RepeatedGet {
  readonly target: UnaryTarget;
  readonly headers: IncomingHttpHeaders;
  readonly coding: ContentCoding | undefined;
}

/** Options of {@link RepeatedGets}. */
export interface RepeatedGetsOptions {
  readonly common: CommonHeaders;
  readonly clients: ClientAddresses;
  readonly bodies: JsonBodies;
  /** The method and message of a URL. */
  target(url: string): UnaryTarget | undefined;
}

/** Headers of requests with a body, or that need more than a response. */
const refusedHeaders = ["content-length", "transfer-encoding", "upgrade", "expect"];

/**
 * Serves GETs whose bytes were received before, without parsing them again. Clients that poll send the same bytes each
 * time, and for a cached response parsing is most of the cost.
 */
export class RepeatedGets {
  readonly #options: RepeatedGetsOptions;
  readonly #remembered = new Map<string, RepeatedGet>();
  #answered = 0;
  #stopped = false;

  constructor(options: RepeatedGetsOptions) {
    this.#options = options;
  }

  /** The number of requests that were answered. */
  get answered(): number {
    return this.#answered;
  }

  /**
   * The text of a GET on a connection that stays open, in the exact form in which clients write it. Undefined: the
   * request cannot be served here.
   */
  textOf(request: IncomingMessage): string | undefined {
    const { method, url = "", httpVersion, headers, rawHeaders } = request;
    if (method !== "GET" || httpVersion !== "1.1" || this.#options.target(url)?.cached !== true) return undefined;
    if (refusedHeaders.some((name) => name in headers)) return undefined;
    if (headers.connection !== undefined && headers.connection.toLowerCase() !== "keep-alive") return undefined;
    let text = `GET ${url} HTTP/1.1\r\n`;
    let hosts = 0;
    for (let i = 0; i < rawHeaders.length; i += 2) {
      text += `${rawHeaders[i]}: ${rawHeaders[i + 1]}\r\n`;
      if (rawHeaders[i]?.toLowerCase() === "host") hosts++;
    }
    text += "\r\n";
    // The parser's way refuses all others.
    if (hosts !== 1) return undefined;
    return text.length <= rememberedTextLengthMax ? text : undefined;
  }

  /** Remembers a request by its {@link textOf}. True: it was known. */
  remember(text: string, { url = "", headers }: IncomingMessage): boolean {
    if (this.#remembered.has(text)) return true;
    const target = this.#options.target(url);
    if (target === undefined) return false;
    if (this.#remembered.size >= rememberedTextsMax) this.#remembered.clear();
    this.#remembered.set(text, {
      target,
      headers,
      coding: chooseCoding(headers["accept-encoding"]?.toString()),
    });
    return false;
  }

  /** The whole response to a remembered text. Undefined: it must take the usual path. */
  respond(text: string, remoteAddress: string): Uint8Array | undefined {
    const get = this.#remembered.get(text);
    if (get === undefined || this.#stopped || !get.target.cached) return undefined;
    const startedMs = performance.now();
    try {
      const response = this.#respond(get, remoteAddress);
      if (response === undefined) return undefined;
      this.#answered++;
      get.target.counters.answered(0, startedMs);
      return response;
    } catch {
      // The usual path fails again, and reports it.
      return undefined;
    }
  }

  /** Stops: from now on all requests take the usual path. */
  stop(): void {
    this.#stopped = true;
  }

  #respond({ target, headers, coding }: RepeatedGet, remoteAddress: string): Uint8Array | undefined {
    const clientAddress = this.#options.clients.of(remoteAddress, headers["x-forwarded-for"]);
    const call = new RequestCall(clientAddress, headers, "json");
    const encoded = target.method.invoke(target.message, call);
    if (encoded instanceof Promise) {
      target.cached = false;
      encoded.catch(() => {});
      call.abort(clientLeft());
      return undefined;
    }
    target.cached = isRepeatable(encoded);
    const body = target.cached ? this.#options.bodies.of(encoded, coding) : undefined;
    if (body === undefined || body instanceof Promise) return undefined;
    return body.whole(this.#options.common.of(headers.origin), headers["if-none-match"]);
  }
}

/** What an {@link EarlyReader} needs of its connection. */
export interface EarlyReaderHost {
  /** Whether the parser must not be given more: it would make another request, or is paused. */
  isBusy(): boolean;
  /** A response is in progress. */
  isResponding(): boolean;
  /** Called when all bytes have left; resumes with bytes that were held back. */
  proceed(): void;
  /** A request was answered without the parser. */
  answered(): void;
  /** Bytes are held back until {@link EarlyReader.feed} is called again. */
  heldBack(): void;
}

/**
 * Reads an HTTP/1.1 connection before Node's parser, once it is started. It gives the parser one request at a time, and
 * answers GETs that {@link RepeatedGets} knows.
 *
 * Proof that such a response equals the parser's. A chunk is answered here only if three conditions hold. (1) It is,
 * byte for byte, the text of a GET without body that the parser once made of exactly these bytes. (2) The parser is
 * between two requests, so it would make the same request again. (3) No response is in progress and no byte is unsent,
 * so the order of responses is kept. All other chunks go to the parser. Chunks that are answered here do not change the
 * parser's state.
 *
 * Condition (2) holds if the last chunk that the parser was given became a request without body whose text is that
 * whole chunk. Bytes that the parser had held from before would be part of that text. Bytes that it took for a body, or
 * for another request, would be missing from it. A test compares both ways on random requests, cut at random places.
 *
 * This replaces the one `data` listener of Node's HTTP server on a socket, which Node does not document. If there is
 * none, or more than one, Node keeps the connection ({@link canReadEarly}).
 */
export class EarlyReader {
  readonly #socket: Socket;
  readonly #gets: RepeatedGets | undefined;
  readonly #host: EarlyReaderHost;
  readonly #clientAddress: string;
  #observed = 0;
  #repetitions = 0;
  /** Node's listener, once this reader has replaced it. */
  #parse: ((chunk: Buffer) => void) | undefined;
  #held: Buffer = noBytes;
  /** The text of the last request of what the parser was given last. */
  #parsedText: string | undefined;
  #isBetweenRequests = false;
  #stopped = false;

  /** @param gets undefined: Node keeps the connection for good */
  constructor(socket: Socket, gets: RepeatedGets | undefined, host: EarlyReaderHost) {
    this.#socket = socket;
    this.#gets = gets;
    this.#host = host;
    this.#clientAddress = socket.remoteAddress ?? "";
  }

  /** Bytes that the parser has not been given yet. */
  get held(): Buffer {
    return this.#held;
  }

  /** The parser has seen whole requests only: the next byte starts a request. */
  get isBetweenRequests(): boolean {
    return this.#isBetweenRequests;
  }

  /** Starts reading, unless Node has paused its parser because a slow reader takes nothing. */
  start(): void {
    if (this.#gets === undefined || this.#parse !== undefined || this.#stopped) return;
    if (this.#socket.destroyed || this.#socket.writableNeedDrain) return;
    const [parse, ...others] = this.#socket.listeners("data");
    if (parse === undefined || others.length > 0) return;
    this.#parse = (chunk) => Reflect.apply(parse, this.#socket, [chunk]);
    // Node's parser stops reading from the kernel itself once the socket has a listener.
    this.#socket.on("data", this.#read);
    this.#socket.off("data", parse as (chunk: Buffer) => void);
    this.#socket.on("drain", this.#host.proceed);
  }

  /** Starts reading now, or once the connection is not paused. */
  startSoon(): void {
    if (this.#gets === undefined || this.#parse !== undefined) return;
    const start = (): void => this.start();
    // A socket that was paused while the parser read it would not be read again.
    if (this.#socket.isPaused()) this.#socket.once("resume", start);
    else if (this.#socket.writableNeedDrain) this.#socket.once("drain", start);
    else start();
  }

  /** Leaves the socket to Node for good. */
  stop(): void {
    this.#stopped = true;
    this.#held = noBytes;
    this.#socket.off("data", this.#read);
    this.#socket.off("drain", this.#host.proceed);
  }

  /** Checks for repetitions, which start the reader. Call it before the request is answered. */
  observe(request: IncomingMessage, response: ServerResponse): void {
    if (this.#gets === undefined) return;
    if (this.#parse !== undefined) {
      this.#parsedText = response.shouldKeepAlive ? this.#gets.textOf(request) : undefined;
      if (this.#parsedText !== undefined) this.#gets.remember(this.#parsedText, request);
      return;
    }
    const position = this.#observed++ % watchEveryRequests;
    if (position >= watchedRequests) return;
    if (position === 0) this.#repetitions = 0;
    const text = response.shouldKeepAlive ? this.#gets.textOf(request) : undefined;
    if (text === undefined || !this.#gets.remember(text, request)) return;
    if (++this.#repetitions === repetitionsMin) response.once("close", () => this.startSoon());
  }

  /** Processes held bytes, one request at a time. */
  feed(): void {
    while (this.#held.length > 0 && !this.#host.isBusy()) {
      const held = this.#held;
      this.#held = noBytes;
      const text = textOf(held);
      if (this.#repeat(text)) return;
      const end = held.indexOf(endOfHeaders) + endOfHeaders.length;
      if (end < endOfHeaders.length || end === held.length) {
        this.#handOn(held, text);
        return;
      }
      this.#held = held.subarray(end);
      const piece = held.subarray(0, end);
      const pieceText = textOf(piece);
      if (!this.#repeat(pieceText)) this.#handOn(piece, pieceText);
    }
    if (this.#held.length > 0) this.#host.heldBack();
  }

  readonly #read = (chunk: Buffer): void => {
    this.#held = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    this.feed();
  };

  /** Answers a repeated GET. False: it is none, or must take the usual path. */
  #repeat(text: string | undefined): boolean {
    if (
      text === undefined ||
      !this.#isBetweenRequests ||
      this.#host.isResponding() ||
      this.#socket.writableLength > 0
    ) {
      return false;
    }
    const response = this.#gets?.respond(text, this.#clientAddress);
    if (response === undefined) return false;
    this.#socket.write(response);
    this.#host.answered();
    return true;
  }

  #handOn(bytes: Buffer, text: string | undefined): void {
    this.#parsedText = undefined;
    this.#parse?.(bytes);
    this.#isBetweenRequests = text !== undefined && this.#parsedText === text;
  }
}

/** Undefined: too long to be remembered. */
function textOf(bytes: Buffer): string | undefined {
  return bytes.length > rememberedTextLengthMax ? undefined : bytes.toString("latin1");
}

/** Whether this Node's HTTP server reads its connections in the way that an {@link EarlyReader} needs. */
export function canReadEarly(): boolean {
  const socket = new Socket();
  createServer().emit("connection", socket);
  const listeners = socket.listenerCount("data");
  socket.destroy();
  return listeners === 1;
}
