import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import {
  constants,
  type IncomingHttpHeaders as Http2Headers,
  type OutgoingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import type { Socket } from "node:net";
import type { Readable, Writable } from "node:stream";
import type { Failure } from "../../domain/failure.js";
import type { Log } from "../../telemetry/log.js";
import type { Metrics } from "../../telemetry/metrics.js";
import {
  type CommonHeaders,
  eachField,
  type HeaderFields,
  type HeaderList,
  mergedHeaders,
  withOwn,
} from "../common-headers.js";
import { errorResponse } from "../errors.js";
import type { TransportLimits } from "../options.js";
import type { ClientAddresses } from "./client-addresses.js";
import { countResponse, endWithBody } from "./unread-responses.js";

/** A port, and where it passes requests. */
export interface PortOptions {
  /** PEM texts; with them the listening socket uses TLS. */
  readonly tls: { readonly certificate: string; readonly key: string } | undefined;
  readonly limits: TransportLimits;
  readonly common: CommonHeaders;
  readonly clients: ClientAddresses;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly handlers: {
    request(exchange: Exchange): void;
    /** A request for a WebSocket; `head` is what follows its headers. */
    upgrade(request: IncomingMessage, socket: Socket, head: Buffer): void;
  };
}

/** A request and its response, in either HTTP version. Responses to HEAD have no body, whatever is written. */
export abstract class Exchange {
  /** The headers of every response, if the exchange has its own. */
  #common: HeaderList | undefined;
  /** The request's body. */
  abstract readonly body: Readable;
  /** The response's body. It reports `drain` and `close`. */
  abstract readonly output: Writable & { readonly headersSent: boolean };
  /** For logs and limits. */
  readonly clientAddress: string;

  constructor(
    readonly method: string,
    /** The request target, undecoded. */
    readonly url: string,
    readonly headers: IncomingHttpHeaders,
    address: string | undefined,
    protected readonly port: PortOptions,
  ) {
    this.clientAddress = port.clients.of(address, headers["x-forwarded-for"]);
  }

  /** Sends these headers too, of the metadata of a response or an error: see {@link withOwn}. */
  addOwn(headers: ReadonlyMap<string, string>): void {
    this.#common = withOwn(this.#commonHeaders, headers);
  }

  /** What Node is given. */
  protected merged(own: HeaderFields): (string | number)[] {
    return mergedHeaders(this.#commonHeaders, own);
  }

  get #commonHeaders(): HeaderList {
    return this.#common ?? this.port.common.of(this.headers.origin);
  }

  /** Whether the headers of the response were sent. */
  get hasStarted(): boolean {
    return this.output.headersSent;
  }

  get isHead(): boolean {
    return this.method === "HEAD";
  }

  /** GET or HEAD. */
  get isRead(): boolean {
    return this.method === "GET" || this.isHead;
  }

  /** Sends a whole response. `headers` replace those of every response. */
  abstract send(status: number, headers: HeaderFields, body?: Uint8Array): void;
  /** Sends the headers of a response whose body follows, and its trailers if `hasTrailers`. */
  abstract start(status: number, headers: HeaderFields, hasTrailers?: boolean): void;
  /** Ends a response that has started. */
  abstract end(last?: Uint8Array, trailers?: ReadonlyMap<string, string>): void;
  /** Aborts the response, so that the client can tell that it is incomplete. */
  abstract breakOff(error?: Pick<Failure, "code">): void;

  /**
   * Sends a whole response, which counts until the peer has taken it. Errors do not: they are some ten kilobytes at
   * most, and nobody could handle that one is refused.
   * @throws Failure before anything was sent, if the client has too many unread bytes
   */
  sendCounted(status: number, headers: HeaderFields, body: Uint8Array): void {
    this.count(body.length);
    this.send(status, headers, body);
  }

  /** {@link sendCounted} for a text that no other request will get. */
  sendText(status: number, headers: HeaderFields, text: string): void {
    this.sendCounted(status, headers, Buffer.from(text));
  }

  /** Counts a response of so many bytes. */
  count(bytes: number): void {
    if (!this.isHead) countResponse(this.output, this.clientAddress, bytes);
  }

  /** Responds with a failure. A response that has started is aborted. */
  sendError(failure: Failure): void {
    if (this.hasStarted) {
      this.breakOff();
      return;
    }
    const { status, headers, body } = errorResponse(failure);
    this.send(status, headers, body);
  }
}

/** Of HTTP/1.1. */
export class Http1Exchange extends Exchange {
  readonly body: IncomingMessage;
  readonly output: ServerResponse;

  constructor(request: IncomingMessage, response: ServerResponse, port: PortOptions) {
    super(request.method ?? "", request.url ?? "/", request.headers, request.socket.remoteAddress, port);
    this.body = request;
    this.output = response;
  }

  /** Whether the body is sent in chunks, which trailers can follow. HTTP/1.0 clients do not support them. */
  get hasChunks(): boolean {
    return this.output.useChunkedEncodingByDefault;
  }

  send(status: number, headers: HeaderFields, body?: Uint8Array): void {
    this.output.writeHead(status, this.merged(headers));
    this.output.end(this.isHead ? undefined : body);
  }

  /**
   * As text, because V8 counts the bytes of each buffer as growth of its heap, and collects garbage far more often
   * (docs/performance.md, "Pages"). The headers of ASCII text are a piece of their own: Node would copy the text behind
   * them.
   */
  override sendText(status: number, headers: HeaderFields, text: string): void {
    if (this.isHead || headers["content-length"] !== text.length) {
      super.sendText(status, headers, text);
      return;
    }
    this.count(text.length);
    this.output.writeHead(status, this.merged(headers));
    this.#writeTogether();
    this.output.flushHeaders();
    this.output.end(text, "latin1");
  }

  start(status: number, headers: HeaderFields): void {
    // A small body leaves with the headers.
    this.#writeTogether();
    this.output.writeHead(status, this.merged(headers));
    this.output.flushHeaders();
  }

  end(last?: Uint8Array, trailers?: ReadonlyMap<string, string>): void {
    if (trailers !== undefined) this.output.addTrailers(Object.fromEntries(trailers));
    this.output.end(last);
  }

  breakOff(): void {
    this.output.destroy();
  }

  /**
   * Sends what is written until the running callbacks have ended as one write. Holds back the socket, not the response:
   * Node 22 and 24 end a response whose chunks it holds back before these chunks.
   */
  #writeTogether(): void {
    const { socket } = this.output;
    socket?.cork();
    process.nextTick(() => socket?.uncork());
  }
}

/**
 * Of HTTP/2, without Node's objects for its requests. They end every body with a separate frame: a client that takes the
 * last message for the end may cancel its request before that frame, and then reports an error.
 */
export class Http2Exchange extends Exchange {
  readonly output: ServerHttp2Stream;

  constructor(stream: ServerHttp2Stream, headers: Http2Headers, address: string, port: PortOptions) {
    super(headers[":method"] ?? "", headers[":path"] ?? "/", headers, address, port);
    this.output = stream;
  }

  get body(): Readable {
    return this.output;
  }

  /** The headers that tell how new the data is, alone. */
  get dataHeaders(): HeaderList {
    return this.port.common.data.current();
  }

  get isGone(): boolean {
    return this.output.destroyed || this.output.closed;
  }

  send(status: number, headers: HeaderFields, body?: Uint8Array): void {
    if (this.isGone) return;
    const endStream = this.isHead || body === undefined || body.length === 0;
    this.output.respond(this.#fields(status, headers), { endStream });
    if (!endStream) endWithBody(this.output, body);
  }

  start(status: number, headers: HeaderFields, hasTrailers = false): void {
    if (!this.isGone) this.output.respond(this.#fields(status, headers), { waitForTrailers: hasTrailers });
  }

  end(last?: Uint8Array, trailers?: ReadonlyMap<string, string>): void {
    if (trailers !== undefined) {
      this.output.once("wantTrailers", () => this.output.sendTrailers(Object.fromEntries(trailers)));
    }
    this.output.end(last);
  }

  breakOff(error?: Pick<Failure, "code">): void {
    this.output.close(breakOffCode(error));
  }

  #fields(status: number, headers: HeaderFields): OutgoingHttpHeaders {
    const fields: OutgoingHttpHeaders = { ":status": status };
    eachField(this.merged(headers), (name, value) => {
      fields[name] = value;
    });
    return fields;
  }
}

/** The code with which an aborted HTTP/2 response is reset. Without an error, the client would not notice. */
function breakOffCode(error: Pick<Failure, "code"> | undefined): number {
  if (error === undefined) return constants.NGHTTP2_INTERNAL_ERROR;
  return error.code === "resource_exhausted" ? constants.NGHTTP2_ENHANCE_YOUR_CALM : constants.NGHTTP2_CANCEL;
}
