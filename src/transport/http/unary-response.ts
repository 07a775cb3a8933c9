import type { Message } from "@bufbuild/protobuf";
import type { EncodedResponse, Encoding } from "../../domain/encoded-response.js";
import { Failure } from "../../domain/failure.js";
import type { UnaryMethod } from "../../domain/service.js";
import type { CallError, CallWire } from "../call/call-wire.js";
import { chooseCoding } from "../call/content-coding.js";
import type { ServedMethod } from "../call/server-call.js";
import { withOwn } from "../common-headers.js";
import { countResponse, endWithBody } from "../connections/unread-responses.js";
import { sendError } from "./error-response.js";
import type { Exchange } from "./exchange.js";
import { breakOff } from "./http-message.js";
import type { JsonBodies, JsonBody } from "./json-body.js";

/** The method and message of a URL, kept for repeated requests. */
export interface UnaryTarget extends ServedMethod {
  readonly method: UnaryMethod;
  readonly message: Message;
  /** The latest response was available without waiting, and small enough to be repeated. */
  cached: boolean;
}

/** The JSON response to a GET of a unary method. */
export class UnaryResponse implements CallWire {
  /** The response, once there is one. */
  answered: EncodedResponse | undefined;
  readonly #exchange: Exchange;
  readonly #bodies: JsonBodies;

  constructor(exchange: Exchange, bodies: JsonBodies) {
    this.#exchange = exchange;
    this.#bodies = bodies;
  }

  get encoding(): Encoding {
    throw new TypeError("a unary response has no stream of messages");
  }

  respond(encoded: EncodedResponse): undefined | Promise<() => void> {
    this.answered = encoded;
    const acceptEncoding = this.#exchange.request.headers["accept-encoding"];
    const body = this.#bodies.of(encoded, chooseCoding(acceptEncoding?.toString()));
    if (body instanceof Promise) return body.then((ready) => () => sendBody(ready, this.#exchange, encoded));
    sendBody(body, this.#exchange, encoded);
    return undefined;
  }

  finish(error: CallError | undefined): void {
    const { response, common, head } = this.#exchange;
    if (error instanceof Failure) sendError(response, error, common, head);
  }

  start(): void {}

  write(): boolean {
    return true;
  }

  breakOff(): void {
    breakOff(this.#exchange.response);
  }
}

function sendBody(body: JsonBody, { request, response, common, head }: Exchange, { metadata }: EncodedResponse): void {
  const notModified = body.isNotModified(request.headers["if-none-match"]);
  const { stream } = response;
  if (stream !== undefined && !head && !notModified) countResponse(stream, body.bytes.length);
  const headers = notModified ? body.notModifiedHeaders(common) : body.headers(common);
  const status = notModified ? 304 : 200;
  response.writeHead(status, metadata === undefined ? headers : withOwn(headers, metadata.headers));
  if (notModified || head) response.end();
  else if (stream === undefined) response.end(body.bytes);
  else endWithBody(response, stream, body.bytes);
}
