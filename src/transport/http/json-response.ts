import type { Message } from "@bufbuild/protobuf";
import type { EncodedResponse } from "../../domain/encoded-response.js";
import { Failure } from "../../domain/failure.js";
import type { UnaryMethod } from "../../domain/service.js";
import { type CallError, type CallWire, WithoutStream } from "../call/call-wire.js";
import { type ContentCoding, chooseCoding, codingOfBody } from "../call/content-coding.js";
import { compressedBodies } from "../call/framing.js";
import type { ServedMethod } from "../call/server-call.js";
import { type HeaderFields, noneMatch, withOwn } from "../common-headers.js";
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
  readonly #vary: string;

  /** `vary`: the value of that header. */
  constructor(exchange: Exchange, vary: string) {
    super();
    this.#exchange = exchange;
    this.#vary = vary;
  }

  respond(response: EncodedResponse): undefined | Promise<() => void> {
    const wanted = chooseCoding(this.#exchange.request.headers["accept-encoding"]?.toString());
    if (response.version === undefined && wanted === undefined && this.#exchange.response.stream === undefined) {
      this.#sendText(response);
      return undefined;
    }
    const json = response.json();
    const coding = codingOfBody(json, wanted);
    if (this.#notModified(response, coding)) return undefined;
    const bytes = coding === undefined ? json : response.encode(compressedBodies.json[coding]);
    if (bytes instanceof Promise) return bytes.then((ready) => () => this.#send(response, ready, coding));
    this.#send(response, bytes, coding);
    return undefined;
  }

  finish(error: CallError | undefined): void {
    const { response, common, head } = this.#exchange;
    if (error instanceof Failure) sendError(response, error, common, head);
  }

  breakOff(): void {
    breakOff(this.#exchange.response);
  }

  /** Sends a 304 if the client's copy is current. */
  #notModified(response: EncodedResponse, coding: ContentCoding | undefined): boolean {
    const { request, response: to, common } = this.#exchange;
    const known = request.headers["if-none-match"];
    const etag = etagOf(response, coding);
    if (known === undefined || etag === undefined || !noneMatch(known, etag)) return false;
    const fields = { ...common, "cache-control": "no-cache", vary: this.#vary, etag };
    sendWhole(to, 304, ownFields(fields, response), noBytes, true);
    return true;
  }

  #send(response: EncodedResponse, body: Uint8Array, coding: ContentCoding | undefined): void {
    const { response: to, head } = this.#exchange;
    sendWhole(to, 200, this.#headers(response, body.length, coding), body, head);
  }

  /**
   * Sends a response that no other request will get, over HTTP/1.1. As text, because V8 counts the bytes of each buffer
   * as growth of its heap, and collects garbage far more often (docs/performance.md, "Pages").
   */
  #sendText(response: EncodedResponse): void {
    const { response: to, head } = this.#exchange;
    const text = response.jsonText();
    const bytes = Buffer.byteLength(text);
    to.writeHead(200, this.#headers(response, bytes, undefined));
    if (head) to.end();
    else if (bytes === text.length) endWithText(to, text);
    else to.end(Buffer.from(text));
  }

  /** The headers of a 200 with JSON; without an ETag, it may not be stored. */
  #headers(response: EncodedResponse, bytes: number, coding: ContentCoding | undefined): HeaderFields {
    const etag = etagOf(response, coding);
    const fields = {
      ...this.#exchange.common,
      "content-type": "application/json",
      "content-length": bytes,
      "cache-control": etag === undefined ? "no-store" : "no-cache",
      vary: this.#vary,
      ...(etag === undefined ? {} : { etag }),
      ...(coding === undefined ? {} : { "content-encoding": coding }),
    };
    return ownFields(fields, response);
  }
}

const noBytes = new Uint8Array();

function etagOf({ version }: EncodedResponse, coding: ContentCoding | undefined): string | undefined {
  return version === undefined ? undefined : `"${version}.json${coding === undefined ? "" : `.${coding}`}"`;
}

function ownFields(fields: HeaderFields, { metadata }: EncodedResponse): HeaderFields {
  return metadata === undefined ? fields : withOwn(fields, metadata.headers);
}

/** Ends a response with ASCII text. Its headers are a piece of their own: Node would copy the text behind them. */
function endWithText(response: Exchange["response"], text: string): void {
  writeTogether(response);
  response.flushHeaders?.();
  response.end(text, "latin1");
}
