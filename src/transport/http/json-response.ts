import type { Message } from "@bufbuild/protobuf";
import type { EncodedResponse } from "../../domain/encoded-response.js";
import { Failure } from "../../domain/failure.js";
import type { UnaryMethod } from "../../domain/service.js";
import { type CallError, type CallWire, WithoutStream } from "../call/call-wire.js";
import { type ContentCoding, chooseCoding, compress, compressedBytesMin } from "../call/content-coding.js";
import type { ServedMethod } from "../call/server-call.js";
import { type HeaderFields, withOwn } from "../common-headers.js";
import { breakOff, type Exchange, sendError, sendWhole, writeTogether } from "./exchange.js";

/** The method and message of a URL, kept for repeated requests. */
export interface UnaryTarget extends ServedMethod {
  readonly method: UnaryMethod;
  readonly message: Message;
}

/** The JSON response to a GET of a unary method. */
export class UnaryResponse extends WithoutStream implements CallWire {
  readonly codec = "json";
  readonly #exchange: Exchange;
  readonly #bodies: JsonBodies;

  constructor(exchange: Exchange, bodies: JsonBodies) {
    super();
    this.#exchange = exchange;
    this.#bodies = bodies;
  }

  respond(encoded: EncodedResponse): undefined | Promise<() => void> {
    const coding = chooseCoding(this.#exchange.request.headers["accept-encoding"]?.toString());
    if (encoded.version === undefined && coding === undefined && this.#exchange.response.stream === undefined) {
      sendText(encoded, this.#exchange, this.#bodies.vary);
      return undefined;
    }
    const body = this.#bodies.of(encoded, coding);
    if (body instanceof Promise) return body.then((ready) => () => sendBody(ready, this.#exchange, encoded));
    sendBody(body, this.#exchange, encoded);
    return undefined;
  }

  finish(error: CallError | undefined): void {
    const { response, common, head } = this.#exchange;
    if (error instanceof Failure) sendError(response, error, common, head);
  }

  breakOff(): void {
    breakOff(this.#exchange.response);
  }
}

function sendBody(body: JsonBody, { request, response, common, head }: Exchange, { metadata }: EncodedResponse): void {
  const notModified = body.isNotModified(request.headers["if-none-match"]);
  const headers = notModified ? body.notModifiedHeaders(common) : body.headers(common);
  const fields = metadata === undefined ? headers : withOwn(headers, metadata.headers);
  sendWhole(response, notModified ? 304 : 200, fields, body.bytes, notModified || head);
}

/**
 * Sends a response that no other request will get, over HTTP/1.1. As text, because V8 counts the bytes of each buffer
 * as growth of its heap, and collects garbage far more often (docs/performance.md, "Pages").
 */
function sendText(encoded: EncodedResponse, { response, common, head }: Exchange, vary: string): void {
  const text = encoded.jsonText();
  const bytes = Buffer.byteLength(text);
  const headers = jsonHeaders(bytes, vary, common);
  const { metadata } = encoded;
  response.writeHead(200, metadata === undefined ? headers : withOwn(headers, metadata.headers));
  if (head) response.end();
  else if (bytes === text.length) endWithText(response, text);
  else response.end(Buffer.from(text));
}

/** Ends a response with ASCII text. Its headers are a piece of their own: Node would copy the text behind them. */
function endWithText(response: Exchange["response"], text: string): void {
  writeTogether(response);
  response.flushHeaders?.();
  response.end(text, "latin1");
}

/** The headers of a 200 with JSON; without an ETag, it may not be stored. */
function jsonHeaders(
  bytes: number,
  vary: string,
  common: HeaderFields,
  etag?: string,
  coding?: ContentCoding,
): HeaderFields {
  return {
    ...common,
    "content-type": "application/json",
    "content-length": bytes,
    "cache-control": etag === undefined ? "no-store" : "no-cache",
    vary,
    ...(etag === undefined ? {} : { etag }),
    ...(coding === undefined ? {} : { "content-encoding": coding }),
  };
}

/** The JSON of a response in one content coding, with finished headers. */
class JsonBody {
  readonly bytes: Uint8Array;
  readonly etag: string | undefined;
  readonly #coding: ContentCoding | undefined;
  readonly #vary: string;
  #common: HeaderFields | undefined;
  #headers: HeaderFields = {};
  #notModifiedHeaders: HeaderFields | undefined;

  constructor(response: EncodedResponse, bytes: Uint8Array, coding: ContentCoding | undefined, vary: string) {
    this.bytes = bytes;
    this.#coding = coding;
    this.#vary = vary;
    if (response.version !== undefined)
      this.etag = `"${response.version}.json${coding === undefined ? "" : `.${coding}`}"`;
  }

  /** The headers of a 200. The same object while `common` is the same. */
  headers(common: HeaderFields): HeaderFields {
    if (this.#common !== common) {
      this.#common = common;
      this.#notModifiedHeaders = undefined;
      this.#headers = jsonHeaders(this.bytes.length, this.#vary, common, this.etag, this.#coding);
    }
    return this.#headers;
  }

  /** The headers of a 304. The same object while `common` is the same. */
  notModifiedHeaders(common: HeaderFields): HeaderFields {
    const headers = this.headers(common);
    if (this.#notModifiedHeaders === undefined) {
      const { "content-type": _type, "content-length": _length, "content-encoding": _coding, ...kept } = headers;
      this.#notModifiedHeaders = kept;
    }
    return this.#notModifiedHeaders;
  }

  /** Whether an `If-None-Match` value matches. */
  isNotModified(ifNoneMatch: string | undefined): boolean {
    return ifNoneMatch !== undefined && this.etag !== undefined && noneMatch(ifNoneMatch, this.etag);
  }
}

/** The bodies of one response by content coding. */
interface Bodies {
  identity: JsonBody | undefined;
  br: JsonBody | Promise<JsonBody> | undefined;
  gzip: JsonBody | Promise<JsonBody> | undefined;
}

/** Caches a response's body in each requested content coding, for as long as the response exists. */
export class JsonBodies {
  readonly #byResponse = new WeakMap<EncodedResponse, Bodies>();
  /** The value of that header. */
  readonly vary: string;

  constructor(vary: string) {
    this.vary = vary;
  }

  /** A promise only if a large body is compressed for the first time. */
  of(response: EncodedResponse, coding: ContentCoding | undefined): JsonBody | Promise<JsonBody> {
    let bodies = this.#byResponse.get(response);
    if (bodies === undefined) {
      bodies = { identity: undefined, br: undefined, gzip: undefined };
      this.#byResponse.set(response, bodies);
    }
    if (coding === undefined) {
      bodies.identity ??= new JsonBody(response, response.json(), undefined, this.vary);
      return bodies.identity;
    }
    bodies[coding] ??= this.#compressed(response, coding, bodies);
    return bodies[coding];
  }

  #compressed(response: EncodedResponse, coding: ContentCoding, bodies: Bodies): JsonBody | Promise<JsonBody> {
    const json = response.json();
    if (json.length < compressedBytesMin) return this.of(response, undefined);
    const bytes = compress(coding, json);
    if (!(bytes instanceof Promise)) return new JsonBody(response, bytes, coding, this.vary);
    return bytes.then((done) => {
      const body = new JsonBody(response, done, coding, this.vary);
      bodies[coding] = body;
      return body;
    });
  }
}

/** Whether an `If-None-Match` value contains this ETag (weak comparison, RFC 9110, 13.1.2). */
export function noneMatch(ifNoneMatch: string, etag: string): boolean {
  if (ifNoneMatch === etag || ifNoneMatch === "*") return true;
  return ifNoneMatch.split(",").some((part) => {
    const tag = part.trim();
    return (tag.startsWith("W/") ? tag.slice(2) : tag) === etag;
  });
}
