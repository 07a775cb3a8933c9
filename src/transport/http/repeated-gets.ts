import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import { Socket } from "node:net";
import { performance } from "node:perf_hooks";
import type { EncodedResponse } from "../../domain/encoded-response.js";
import { type ContentCoding, chooseCoding } from "../call/content-coding.js";
import { clientLeft } from "../call/deadline.js";
import { RequestCall } from "../call/request-call.js";
import type { ClientAddresses } from "../client-addresses.js";
import type { CommonHeaders } from "../common-headers.js";
import type { JsonBodies } from "./json-body.js";
import type { UnaryTarget } from "./unary-response.js";

/** How many requests are remembered by their text; all are then forgotten, and it begins anew. */
export const rememberedTextsMax = 4_096;

/** Longer requests are read each time. */
export const rememberedTextLengthMax = 1_024;

/** Larger responses go the ordinary way, where a reader who does not take them is watched. In bytes of JSON. */
export const wholeBodyBytesMax = 65_536;

/** Of so many requests on a connection the first {@link watchedRequests} are watched for repetitions. */
const watchEveryRequests = 256;

/** How many requests are watched in a row. */
const watchedRequests = 16;

/** So many repetitions among the watched make a connection one that repeats itself. */
const repetitionsMin = 8;

const endOfHeaders = Buffer.from("\r\n\r\n");

const noBytes = Buffer.alloc(0);

/** Whether a response is small enough, and has no headers of its own. */
export function isRepeatable(encoded: EncodedResponse): boolean {
  return encoded.metadata === undefined && encoded.json().length <= wholeBodyBytesMax;
}

/** What a response depends on, of a request that came before. */
interface RepeatedGet {
  readonly target: UnaryTarget;
  readonly headers: IncomingHttpHeaders;
  readonly coding: ContentCoding | undefined;
}

/** What {@link RepeatedGets} answers from. */
export interface RepeatedGetsOptions {
  readonly common: CommonHeaders;
  readonly clients: ClientAddresses;
  readonly bodies: JsonBodies;
  /** What a URL was found to stand for. */
  target(url: string): UnaryTarget | undefined;
}

/** Headers with which a request has a body, or wants more than a response. */
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

  /** How many were answered. */
  get answered(): number {
    return this.#answered;
  }

  /**
   * The text of a GET on a connection that stays open, exactly as it reads when it is written without idle spaces;
   * undefined: not one to be answered from here.
   */
  textOf(request: IncomingMessage): string | undefined {
    const { method, url = "", httpVersion, headers, rawHeaders } = request;
    if (method !== "GET" || httpVersion !== "1.1" || this.#options.target(url)?.cached !== true) return undefined;
    if (refusedHeaders.some((name) => name in headers)) return undefined;
    if (headers.connection !== undefined && headers.connection.toLowerCase() !== "keep-alive") return undefined;
    let text = `GET ${url} HTTP/1.1\r\n`;
    for (let i = 0; i < rawHeaders.length; i += 2) text += `${rawHeaders[i]}: ${rawHeaders[i + 1]}\r\n`;
    text += "\r\n";
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

  /** The whole response to a remembered text; undefined: it has to be asked for in the ordinary way. */
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
      // The ordinary way fails again, and says why.
      return undefined;
    }
  }

  /** Answers no more: what still comes goes the ordinary way. */
  stop(): void {
    this.#stopped = true;
  }

  #respond({ target, headers, coding }: RepeatedGet, remoteAddress: string): Uint8Array | undefined {
    const clientAddress = this.#options.clients.of(remoteAddress, headers["x-forwarded-for"]);
    const call = new RequestCall(clientAddress, headers);
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

/** What an {@link EarlyReader} needs of the connection that it reads. */
export interface EarlyReaderHost {
  /** Whether the parser must not be given more: it would make another request of it, or is paused. */
  isBusy(): boolean;
  /** A response is under way. */
  isResponding(): boolean;
  /** Called when all that was written has left: goes on with what was held back. */
  proceed(): void;
  /** A request was answered without the parser. */
  answered(): void;
  /** Bytes are held back until {@link EarlyReader.feed} is called again. */
  heldBack(): void;
}

/**
 * Reads an HTTP/1.1 connection before Node's parser, once it is started: gives the parser one request at a time, and
 * answers GETs that {@link RepeatedGets} knows in its place.
 *
 * Proof that such a response is the one that the parser's way would give. A chunk is answered here only if (1) it is, byte
 * for byte, the text of a GET without a body that the parser has once made of exactly these bytes, and (2) the parser is
 * between two requests, so that it would make the same request again. (2) is never assumed: it holds when the chunk that
 * the parser was given last became a request without a body whose text is that whole chunk. Bytes that the parser had held
 * from before would have become part of that text; bytes that it took for a body, or for another request, would be missing
 * from it. Chunks that are answered here leave the parser where it was. (3) No response is under way and no byte is
 * unsent, so the order of responses is kept. All else goes to the parser. The test of this module compares both ways on
 * random requests, cut at random places.
 *
 * It takes the place of the one `data` listener that Node's HTTP server has on a socket, which no document promises. Where
 * there is none, or more than one, the connection is left to Node ({@link canReadEarly}).
 */
export class EarlyReader {
  readonly #socket: Socket;
  readonly #gets: RepeatedGets | undefined;
  readonly #host: EarlyReaderHost;
  readonly #clientAddress: string;
  #observed = 0;
  #repetitions = 0;
  /** Node's reader, once this one is in its place. */
  #parse: ((chunk: Buffer) => void) | undefined;
  #held: Buffer = noBytes;
  /** Of the last request that came of what was handed to the parser last. */
  #parsedText: string | undefined;
  #isBetweenRequests = false;
  #stopped = false;

  /** @param gets undefined: the connection is left to Node for good */
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

  /** The parser is known to have seen whole requests only: the next byte begins one. */
  get isBetweenRequests(): boolean {
    return this.#isBetweenRequests;
  }

  /** Reads from now on; unless Node has paused its parser, because a slow reader does not take what was written. */
  start(): void {
    if (this.#gets === undefined || this.#parse !== undefined || this.#stopped) return;
    if (this.#socket.destroyed || this.#socket.writableNeedDrain) return;
    const [parse, ...others] = this.#socket.listeners("data");
    if (parse === undefined || others.length > 0) return;
    this.#parse = (chunk) => Reflect.apply(parse, this.#socket, [chunk]);
    // Node's parser leaves the kernel's bytes to the socket once someone listens for them.
    this.#socket.on("data", this.#read);
    this.#socket.off("data", parse as (chunk: Buffer) => void);
    this.#socket.on("drain", this.#host.proceed);
  }

  /** Reads from now on, or as soon as the connection is not paused. */
  startSoon(): void {
    if (this.#gets === undefined || this.#parse !== undefined) return;
    const start = (): void => this.start();
    // A socket that was paused while the parser read it would not be read again.
    if (this.#socket.isPaused()) this.#socket.once("resume", start);
    else if (this.#socket.writableNeedDrain) this.#socket.once("drain", start);
    else start();
  }

  /** Leaves the socket alone for good. */
  stop(): void {
    this.#stopped = true;
    this.#held = noBytes;
    this.#socket.off("data", this.#read);
    this.#socket.off("drain", this.#host.proceed);
  }

  /** Looks for repetitions, which start the reader; to be called before the request is answered. */
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

  /** Takes what is held as far as one request at a time allows. */
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

  /** Answers a GET that came before. False: it is none, or has to be asked for in the ordinary way. */
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

/** Whether this Node's HTTP server reads its connections as an {@link EarlyReader} needs it. */
export function canReadEarly(): boolean {
  const socket = new Socket();
  createServer().emit("connection", socket);
  const listeners = socket.listenerCount("data");
  socket.destroy();
  return listeners === 1;
}
