import { codeToHttpStatus, errorToJsonBytes } from "@connectrpc/connect/protocol-connect";
import type { Codec, EncodedResponse } from "../../domain/encoded-response.js";
import type { Failure } from "../../domain/failure.js";
import type { Metadata } from "../../domain/metadata.js";
import { jsonWriteOptions } from "../../encoding/json-encoder.js";
import { type CallError, type CallWire, WithoutStream } from "../call/call-wire.js";
import { type ContentCoding, codingOfBody } from "../call/content-coding.js";
import { compressedBodies, encoded } from "../call/framing.js";
import { noneMatch } from "../common-headers.js";
import { HttpFailure } from "../errors.js";
import type { AnyRequest } from "../options.js";
import { asConnectError } from "./rpc-errors.js";
import type { RpcContentType } from "./rpc-methods.js";
import type { RpcResponse } from "./rpc-response.js";

/** A Connect unary response: the message itself, or an error as JSON with its own HTTP status. */
export class ConnectUnaryResponse extends WithoutStream implements CallWire {
  readonly codec: Codec;
  readonly #type: RpcContentType;
  readonly #coding: ContentCoding | undefined;
  readonly #request: AnyRequest;
  readonly #response: RpcResponse;

  constructor(type: RpcContentType, coding: ContentCoding | undefined, request: AnyRequest, response: RpcResponse) {
    super();
    this.codec = type.codec;
    this.#type = type;
    this.#coding = coding;
    this.#request = request;
    this.#response = response;
  }

  respond(reply: EncodedResponse): undefined | Promise<() => void> {
    const { codec } = this;
    const plain = encoded(reply, codec);
    if (this.#notModified(reply)) return undefined;
    const coding = codingOfBody(plain, this.#coding);
    if (coding !== undefined) this.#response.set("content-encoding", coding);
    const bytes = coding === undefined ? plain : reply.encode(compressedBodies[codec][coding]);
    if (bytes instanceof Promise) return bytes.then((packed) => () => this.#send(reply, packed));
    this.#send(reply, bytes);
    return undefined;
  }

  finish(error: CallError | undefined): void {
    if (error === undefined) return;
    const connectError = asConnectError(error);
    const response = this.#response;
    for (const name of ["content-encoding", "etag", "cache-control"]) response.remove(name);
    response.status = error instanceof HttpFailure ? error.status : codeToHttpStatus(connectError.code);
    response.set("content-type", "application/json");
    for (const [name, value] of connectError.metadata) response.set(name, value);
    this.#setMetadata(error.metadata);
    this.#end(errorToJsonBytes(connectError, jsonWriteOptions));
  }

  breakOff(failure: Failure): void {
    this.#response.breakOff(failure);
  }

  /** For GET only: sets the ETag of a response with a version, and returns true if the client's copy is current. */
  #notModified(reply: EncodedResponse): boolean {
    if (this.#request.method === "POST" || reply.version === undefined) return false;
    const suffix = this.#coding === undefined ? "" : `.${this.#coding}`;
    const etag = `"${reply.version}.connect-${this.#type.codec}${suffix}"`;
    this.#response.set("etag", etag);
    this.#response.set("cache-control", "no-cache");
    const known = this.#request.headers["if-none-match"];
    if (known === undefined || !noneMatch(known, etag)) return false;
    this.#setMetadata(reply.metadata);
    this.#response.status = 304;
    this.#response.end();
    return true;
  }

  #send(reply: EncodedResponse, body: Uint8Array): void {
    this.#response.count(body.length);
    this.#response.set("content-type", this.#type.response);
    this.#setMetadata(reply.metadata);
    this.#end(body);
  }

  /** Nothing follows the message, so trailers are headers with a prefix. */
  #setMetadata(metadata: Metadata | undefined): void {
    if (metadata === undefined) return;
    const trailers = [...metadata.trailers].map(([name, value]) => [`trailer-${name}`, value] as const);
    this.#response.exposeOwn(new Map([...metadata.headers, ...trailers]));
  }

  #end(body: Uint8Array): void {
    this.#response.set("content-length", body.length);
    this.#response.end(this.#request.method === "HEAD" ? undefined : body);
  }
}
