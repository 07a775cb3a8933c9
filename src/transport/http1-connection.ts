import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { type RepeatedGets, rememberedTextLengthMax } from "./http/repeated-gets.js";

/** Of so many requests on a connection the first {@link watchedRequests} are watched for repetitions. */
const watchEveryRequests = 256;

/** How many requests are watched in a row. */
const watchedRequests = 16;

/** So many repetitions among the watched make a connection one that repeats itself. */
const repetitionsMin = 8;

/**
 * An HTTP/1.1 connection. One that asks the same over and over is read here, before Node's parser: a GET that is the same
 * byte for byte as one that came before, and comes between two requests, is answered at once; anything else is handed
 * on. Reading here makes what is handed on dearer (Node's parser otherwise reads from the kernel itself), which is why
 * only such connections are.
 */
export class Http1Connection {
  readonly #socket: Socket;
  readonly #gets: RepeatedGets;
  readonly #clientAddress: string;
  #asked = 0;
  #repetitions = 0;
  /** Node's reader, once we read in its place. */
  #parse: ((chunk: Buffer) => void) | undefined;
  /** The parser has seen whole requests only: the next byte begins one. */
  #between = false;
  /** The newest request's response, until it has left. */
  #latest: ServerResponse | undefined;
  /** Of the last request that came of what was handed to the parser last. */
  #parsedText: string | undefined;

  constructor(socket: Socket, gets: RepeatedGets) {
    this.#socket = socket;
    this.#gets = gets;
    this.#clientAddress = socket.remoteAddress ?? "";
  }

  /** Node's parser made a request; to be told before it is answered. */
  asked(request: IncomingMessage, response: ServerResponse): void {
    if (this.#parse === undefined) {
      const position = this.#asked++ % watchEveryRequests;
      if (position < watchedRequests) this.#watch(position, request, response);
      return;
    }
    this.#parsedText = this.#textOf(request, response);
    if (this.#parsedText !== undefined) this.#gets.remember(this.#parsedText, request);
    this.#latest = response;
    response.once("close", () => {
      if (this.#latest === response) this.#latest = undefined;
    });
  }

  /** Leaves the socket to another protocol. */
  release(): void {
    this.#socket.off("data", this.#read);
  }

  #watch(position: number, request: IncomingMessage, response: ServerResponse): void {
    if (position === 0) this.#repetitions = 0;
    const text = this.#textOf(request, response);
    if (text === undefined || !this.#gets.remember(text, request)) return;
    if (++this.#repetitions === repetitionsMin) response.once("close", () => this.#readFirst());
  }

  #textOf(request: IncomingMessage, response: ServerResponse): string | undefined {
    return response.shouldKeepAlive ? this.#gets.textOf(request) : undefined;
  }

  /** Takes the place of Node's reader. Its parser leaves the kernel's bytes to the socket once someone listens for them. */
  #readFirst(): void {
    // While it waits for a slow reader, the parser may still hold bytes. Another time, then.
    if (this.#parse !== undefined || this.#socket.destroyed || this.#socket.isPaused()) return;
    const [parse, ...others] = this.#socket.listeners("data");
    if (parse === undefined || others.length > 0) return;
    this.#parse = (chunk) => Reflect.apply(parse, this.#socket, [chunk]);
    this.#socket.on("data", this.#read);
    this.#socket.off("data", parse as (chunk: Buffer) => void);
  }

  readonly #read = (chunk: Buffer): void => {
    if (chunk.length > rememberedTextLengthMax) {
      this.#handOn(chunk, undefined);
      return;
    }
    const text = chunk.toString("latin1");
    if (this.#between && this.#latest === undefined && this.#socket.writableLength === 0) {
      const response = this.#gets.answer(text, this.#clientAddress);
      if (response !== undefined) {
        this.#socket.write(response);
        return;
      }
    }
    this.#handOn(chunk, text);
  };

  /**
   * Gives a chunk to the parser. If a request without a body comes of it whose text is the whole chunk, then the chunk
   * began and ended between two requests: what the parser had held before would be in that text too, and what it took for
   * another request, or a body, would be missing from it.
   */
  #handOn(chunk: Buffer, text: string | undefined): void {
    this.#parsedText = undefined;
    this.#parse?.(chunk);
    this.#between = text !== undefined && this.#parsedText === text;
  }
}
