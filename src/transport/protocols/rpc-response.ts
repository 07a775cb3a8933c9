import { ServerResponse } from "node:http";
import type { Failure } from "../../domain/failure.js";
import { exposing, type HeaderFields, withOwn } from "../common-headers.js";
import { countResponse, endWithBody } from "../connections/unread-responses.js";
import type { AnyResponse } from "../options.js";
import { breakOffCode } from "./grpc.js";

/**
 * A response without HTTP trailers. Its headers are a list until they are sent: Node's setHeader costs more, and so does
 * an object whose fields are added one by one. Over HTTP/2 it bypasses Node's response object, which ends every body
 * with a separate frame. A client that takes the last message for the end may cancel its request before that frame, and
 * then reports an error.
 */
export class RpcResponse {
  status = 200;
  readonly #response: AnyResponse;
  readonly #fields = new Map<string, string | number>();
  #common: HeaderFields;

  /** `common` are the headers of every response. */
  constructor(response: AnyResponse, common: HeaderFields) {
    this.#response = response;
    this.#common = common;
  }

  get headersSent(): boolean {
    return this.#response.headersSent;
  }

  set(name: string, value: string | number): void {
    this.#fields.set(name, value);
  }

  remove(name: string): void {
    this.#fields.delete(name);
  }

  /** Sets headers that pages of other origins may read. */
  expose(headers: ReadonlyMap<string, string>): void {
    this.#common = { ...exposing(this.#common, [...headers.keys()]), ...Object.fromEntries(headers) };
  }

  /** The same for a response with its own metadata: it names the block of its statement, or none. */
  exposeOwn(headers: ReadonlyMap<string, string>): void {
    this.#common = withOwn(exposing(this.#common, [...headers.keys()]), headers);
  }

  /** Call it before a whole response. @throws Failure if its client has too many unread bytes */
  count(bytes: number): void {
    if (!(this.#response instanceof ServerResponse)) countResponse(this.#response.stream, bytes);
  }

  /** Sends the status and the headers. */
  begin(): void {
    this.#sendHead();
    if (this.#response instanceof ServerResponse) this.#response.flushHeaders();
  }

  /** False: wait for the response's drain. */
  write(chunk: Uint8Array): boolean {
    return this.#response instanceof ServerResponse ? this.#response.write(chunk) : this.#response.stream.write(chunk);
  }

  /** Sends what was not sent yet; without `chunk`, and without headers before, the response has no body. */
  end(chunk?: Uint8Array): void {
    const response = this.#response;
    if (chunk !== undefined) this.#fields.set("content-length", chunk.length);
    // A gRPC error without messages must end with its headers.
    const endStream = !response.headersSent && (chunk === undefined || chunk.length === 0);
    this.#sendHead(endStream);
    if (response instanceof ServerResponse) response.end(chunk);
    else if (!endStream) endWithBody(response.stream, response.stream, chunk ?? new Uint8Array());
  }

  /** Aborts a response whose reader takes nothing. */
  breakOff(failure: Failure): void {
    if (this.#response instanceof ServerResponse) this.#response.destroy();
    else this.#response.stream.close(breakOffCode(failure));
  }

  /** Names and values in turn, each name once. */
  #list(): (string | number)[] {
    const list: (string | number)[] = [];
    for (const [name, value] of this.#fields) list.push(name, value);
    for (const [name, value] of Object.entries(this.#common)) {
      if (!this.#fields.has(name)) list.push(name, value);
    }
    return list;
  }

  #sendHead(endStream = false): void {
    const response = this.#response;
    if (response.headersSent) return;
    if (response instanceof ServerResponse) {
      response.writeHead(this.status, this.#list());
      return;
    }
    const { stream } = response;
    if (stream.headersSent || stream.destroyed || stream.closed) return;
    stream.respond({ ":status": this.status, ...this.#common, ...Object.fromEntries(this.#fields) }, { endStream });
  }
}
