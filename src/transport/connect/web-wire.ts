import type { Answer } from "../../domain/answer.js";
import type { Failure } from "../../domain/failure.js";
import type { Metadata } from "../../domain/metadata.js";
import { countAnswer } from "../connections/unread-answers.js";
import type { CallError, CallWire } from "../grpc/call-wire.js";
import type { AnyResponse } from "../lane.js";
import { breakOff } from "./break-off.js";
import { ResponseBody } from "./response-body.js";
import type { WebProtocol } from "./web-protocol.js";

const noMetadata: Metadata = { headers: new Map(), trailers: new Map() };

/** A gRPC-Web response, or one of a Connect stream. */
export class WebWire implements CallWire {
  readonly form;
  readonly #protocol: WebProtocol;
  readonly #response: AnyResponse;
  readonly #body: ResponseBody;

  constructor(protocol: WebProtocol, response: AnyResponse) {
    this.form = protocol.form;
    this.#protocol = protocol;
    this.#response = response;
    this.#body = new ResponseBody(response);
  }

  answer(answer: Answer): void {
    const { headers, trailers } = answer.metadata ?? noMetadata;
    const body = Buffer.concat([answer.as(this.form), this.#protocol.end(undefined, trailers)]);
    if ("stream" in this.#response) countAnswer(this.#response.stream, body.length);
    this.#setHeaders(headers);
    this.#body.end(body);
  }

  start(headers: ReadonlyMap<string, string>): void {
    this.#setHeaders(headers);
    this.#body.begin();
  }

  write(frames: Uint8Array): boolean {
    return this.#body.write(frames);
  }

  finish(error: CallError | undefined, trailers: ReadonlyMap<string, string>): void {
    const own = error?.metadata ?? noMetadata;
    if (!this.#response.headersSent) this.#setHeaders(own.headers);
    this.#body.end(this.#protocol.end(error, error === undefined ? trailers : own.trailers));
  }

  breakOff(failure: Failure): void {
    breakOff(this.#response, failure);
  }

  #setHeaders(headers: ReadonlyMap<string, string>): void {
    this.#response.setHeader("content-type", this.#protocol.contentType);
    for (const [name, value] of headers) this.#response.setHeader(name, value);
  }
}
