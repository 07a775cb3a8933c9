import { codeToHttpStatus, errorToJsonBytes } from "@connectrpc/connect/protocol-connect";
import type { Answer, Form } from "../../domain/answer.js";
import type { Metadata } from "../../domain/metadata.js";
import { jsonWriteOptions } from "../../encoding/json-encoder.js";
import { countAnswer } from "../connections/unread-answers.js";
import type { CallError, CallWire } from "../grpc/call-wire.js";
import { noneMatch } from "../http/answered-body.js";
import { type ContentCoding, chooseCoding, compress, compressedBytesMin } from "../http/content-coding.js";
import { HttpFailure } from "../http/http-failure.js";
import type { AnyRequest, AnyResponse } from "../lane.js";
import { asConnectError } from "./connect-error.js";
import { ResponseBody } from "./response-body.js";

/** How a Connect unary message is written. */
export class UnaryEncoding {
  readonly name: "json" | "proto";
  readonly contentType: string;
  readonly form: Form;
  readonly #compressed = new WeakMap<Answer, Map<ContentCoding, Uint8Array | Promise<Uint8Array>>>();

  constructor(name: "json" | "proto", contentType: string, encode: (answer: Answer) => Uint8Array) {
    this.name = name;
    this.contentType = contentType;
    this.form = { name: `Connect unary ${name}`, encode };
  }

  /** Compressed once for all who ask; a promise where the body is large and asked for the first time. */
  compressed(answer: Answer, coding: ContentCoding): Uint8Array | Promise<Uint8Array> {
    let byCoding = this.#compressed.get(answer);
    if (byCoding === undefined) {
      byCoding = new Map();
      this.#compressed.set(answer, byCoding);
    }
    let bytes = byCoding.get(coding);
    if (bytes === undefined) {
      bytes = compress(coding, answer.as(this.form));
      byCoding.set(coding, bytes);
    }
    return bytes;
  }
}

/** A Connect unary response: the message itself, or an error as JSON with its own HTTP status. */
export class ConnectUnaryWire implements CallWire {
  readonly form: Form;
  readonly #encoding: UnaryEncoding;
  readonly #request: AnyRequest;
  readonly #response: AnyResponse;

  constructor(encoding: UnaryEncoding, request: AnyRequest, response: AnyResponse) {
    this.form = encoding.form;
    this.#encoding = encoding;
    this.#request = request;
    this.#response = response;
  }

  answer(answer: Answer): void {
    const plain = answer.as(this.form);
    const accepted = this.#request.headers["accept-encoding"];
    const coding = chooseCoding(typeof accepted === "string" ? accepted : undefined);
    const response = this.#response;
    if ("stream" in response) countAnswer(response.stream, plain.length);
    response.appendHeader("vary", "accept-encoding");
    if (this.#notModified(answer, coding)) return;
    response.setHeader("content-type", this.#encoding.contentType);
    this.#setMetadata(answer.metadata);
    if (coding === undefined || plain.length < compressedBytesMin) {
      this.#end(plain);
      return;
    }
    response.setHeader("content-encoding", coding);
    const compressed = this.#encoding.compressed(answer, coding);
    if (compressed instanceof Promise) compressed.then((bytes) => this.#end(bytes)).catch(() => this.breakOff());
    else this.#end(compressed);
  }

  finish(error: CallError | undefined): void {
    if (error === undefined) return;
    const connectError = asConnectError(error);
    this.#response.statusCode = error instanceof HttpFailure ? error.status : codeToHttpStatus(connectError.code);
    this.#response.setHeader("content-type", "application/json");
    for (const [name, value] of connectError.metadata) this.#response.setHeader(name, value);
    this.#setMetadata(error.metadata);
    this.#end(errorToJsonBytes(connectError, jsonWriteOptions));
  }

  start(): void {}

  write(): boolean {
    return true;
  }

  breakOff(): void {
    this.#response.destroy();
  }

  /** GETs can be asked for again: an answer with a version has a tag, and one that the client has is not sent again. */
  #notModified(answer: Answer, coding: ContentCoding | undefined): boolean {
    if (this.#request.method === "POST" || answer.version === undefined) return false;
    const suffix = coding === undefined ? "" : `.${coding}`;
    const etag = `"${answer.version}.connect-${this.#encoding.name}${suffix}"`;
    this.#response.setHeader("etag", etag);
    this.#response.setHeader("cache-control", "no-cache");
    const known = this.#request.headers["if-none-match"];
    if (known === undefined || !noneMatch(known, etag)) return false;
    this.#response.statusCode = 304;
    this.#response.end();
    return true;
  }

  /** There is no place behind the one message: trailers are headers with a prefix. */
  #setMetadata(metadata: Metadata | undefined): void {
    if (metadata === undefined) return;
    for (const [name, value] of metadata.headers) this.#response.setHeader(name, value);
    for (const [name, value] of metadata.trailers) this.#response.setHeader(`trailer-${name}`, value);
  }

  #end(body: Uint8Array): void {
    this.#response.setHeader("content-length", body.length);
    if (this.#request.method === "HEAD") this.#response.end();
    else new ResponseBody(this.#response).end(body);
  }
}

/** Connect unary in JSON. */
export const jsonEncoding = new UnaryEncoding("json", "application/json", (answer) => answer.json());

/** Connect unary in protobuf. */
export const protoEncoding = new UnaryEncoding("proto", "application/proto", (answer) => answer.binary());
