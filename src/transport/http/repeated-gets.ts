import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
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

/** Larger answers go the ordinary way, where a reader who does not take them is watched. In bytes of JSON. */
export const wholeBodyBytesMax = 65_536;

/** Whether an answer is small enough, and has no headers of its own. */
export function isRepeatable(answer: EncodedResponse): boolean {
  return answer.metadata === undefined && answer.json().length <= wholeBodyBytesMax;
}

/** What an answer depends on, of a request that came before. */
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

/** Headers with which a request has a body, or wants more than an answer. */
const refusedHeaders = ["content-length", "transfer-encoding", "upgrade", "expect"];

/**
 * GETs that come again in the same bytes, from those who poll. The text of a request is everything that it says, so what
 * it asks need not be found out again; with the answer in memory, that is most of what a request costs.
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
  answer(text: string, remoteAddress: string): Uint8Array | undefined {
    const get = this.#remembered.get(text);
    if (get === undefined || this.#stopped || !get.target.cached) return undefined;
    const startedMs = performance.now();
    try {
      const response = this.#answer(get, remoteAddress);
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

  #answer({ target, headers, coding }: RepeatedGet, remoteAddress: string): Uint8Array | undefined {
    const clientAddress = this.#options.clients.of(remoteAddress, headers["x-forwarded-for"]);
    const call = new RequestCall(clientAddress, headers);
    const answer = target.method.answer(target.message, call);
    if (answer instanceof Promise) {
      target.cached = false;
      answer.catch(() => {});
      call.abort(clientLeft());
      return undefined;
    }
    target.cached = isRepeatable(answer);
    const body = target.cached ? this.#options.bodies.of(answer, coding) : undefined;
    if (body === undefined || body instanceof Promise) return undefined;
    return body.whole(this.#options.common.of(headers.origin), headers["if-none-match"]);
  }
}
