import http, { type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { quotaKey } from "../../domain/client-address.js";
import type { Failure } from "../../domain/failure.js";
import { tooManyOfClient } from "../call/event-loop.js";
import { HttpFailure, wrongMethod } from "../errors.js";
import { type CancelledCalls, connectionRefusals, earlyCancelMs } from "./connection-admission.js";
import { Http1Exchange, type PortOptions } from "./exchange.js";
import { type ConnectionEvents, Http1Connection, type Http1Handler } from "./http1-connection.js";
import {
  closeLingering,
  headerRefusal,
  malformedRequest,
  rawErrorResponse,
  unknownHttp,
  unmetExpectation,
} from "./raw-sockets.js";

/** Interval between checks for requests that arrive too slowly, at most. */
const timeoutCheckIntervalMs = 5_000;

/**
 * After a packet with too many requests, the parser is given one request at a time of every connection, for this
 * long. Parsing such a packet takes about 20 ms, and hundreds of connections can send one at the same time.
 */
const floodMemoryMs = 60_000;

/** The HTTP/1.1 connections of a port, and Node's server of them. */
export class Http1Server {
  readonly #server: http.Server;
  readonly #events: ConnectionEvents;
  /** By decrypted socket if TLS is used. */
  readonly #connections = new Map<Socket, Http1Connection>();
  /** Disconnects readers of large responses that take nothing. Streams have their own rule. */
  readonly #stalled: NodeJS.Timeout;
  #draining = false;
  #oneByOneUntilMs = 0;

  constructor(
    private readonly options: PortOptions,
    private readonly cancelled: CancelledCalls,
  ) {
    this.#events = {
      cancelled: (client) => cancelled.allows(client),
      flooded: () => this.#flooded(),
      clientOf: (request, remoteAddress) => this.#clientOf(request, remoteAddress),
      tooManyWait: (request) => rawErrorResponse(tooManyOfClient(), options.common.of(request?.headers.origin)),
    };
    this.#server = this.#create();
    // It does not listen; its time limits start at this event.
    this.#server.emit("listening");
    this.#stalled = watchStalled(this.#connections, options.limits.stalledReaderMs);
    this.#listen();
  }

  /** Serves a decrypted connection. `first` are bytes that were put back, and are read first. */
  serve(socket: Socket, first?: Buffer): void {
    const connection = new Http1Connection(socket, this.options.limits, this.#events);
    if (!this.#connections.has(socket)) socket.once("close", () => this.#connections.delete(socket));
    this.#connections.set(socket, connection);
    this.#server.emit("connection", socket);
    connection.started(first, performance.now() < this.#oneByOneUntilMs);
    if (this.#draining) connection.drain();
  }

  /** Ends each connection after the response to its last request, or when idle. */
  drain(): void {
    this.#draining = true;
    for (const connection of this.#connections.values()) connection.drain();
  }

  /** Stops the timers. Call it when every connection has ended. */
  stop(): void {
    clearInterval(this.#stalled);
    this.#server.close();
  }

  #flooded(): void {
    const nowMs = performance.now();
    const isKnown = nowMs < this.#oneByOneUntilMs;
    this.#oneByOneUntilMs = nowMs + floodMemoryMs;
    if (isKnown) return;
    for (const connection of this.#connections.values()) connection.feedOneByOne();
  }

  #create(): http.Server {
    const { limits } = this.options;
    return http.createServer({
      maxHeaderSize: limits.headerBytesMax,
      headersTimeout: limits.headersTimeoutMs,
      requestTimeout: limits.requestReceiveTimeoutMs,
      keepAliveTimeout: limits.keepAliveTimeoutMs,
      connectionsCheckingInterval: Math.min(limits.headersTimeoutMs, timeoutCheckIntervalMs),
      // Node would respond by itself, out of order and without counting.
      requireHostHeader: false,
    });
  }

  #listen(): void {
    const { handlers, limits, common } = this.options;
    const server = this.#server;
    // One more is kept, so that the excess shows.
    server.maxHeadersCount = limits.headerFieldsMax + 1;
    const accept = (serve: (exchange: Http1Exchange) => void) => {
      const handle: Http1Handler = (request, response) => {
        const exchange = new Http1Exchange(request, response, this.options);
        const invalid = headerRefusal(request.rawHeaders, limits) ?? unknownHttp(request);
        if (invalid !== undefined) response.shouldKeepAlive = false;
        const refusal =
          invalid ?? this.#refusalOf(request, exchange.clientAddress) ?? unmetExpectation(request.headers.expect);
        if (refusal === undefined) serve(exchange);
        else exchange.sendError(refusal);
        // Nobody reads the body, which would be kept until the response ends. A request without one has nothing to read.
        if (hasBody(request.headers) && request.readableFlowing === null) request.resume();
      };
      return (request: IncomingMessage, response: ServerResponse) => {
        this.#connections.get(request.socket)?.accept(request, response, handle);
      };
    };
    server.on("request", accept(handlers.request));
    const invite = (exchange: Http1Exchange): void => {
      exchange.output.writeContinue();
      handlers.request(exchange);
    };
    server.on("checkContinue", accept(invite));
    server.on("checkExpectation", accept(invite));
    server.on("upgrade", (request, _socket, head: Buffer) => {
      this.#connections.get(request.socket)?.upgrade(head, (rest) => this.#upgrade(request, rest));
    });
    server.on("connect", (request, _socket, head: Buffer) => {
      const refusal = rawErrorResponse(wrongMethod("CONNECT"), common.of(request.headers.origin));
      const refuse = (): void => closeLingering(request.socket, limits.lingerMs, refusal);
      this.#connections.get(request.socket)?.upgrade(head, refuse);
    });
    server.on("clientError", (error: NodeJS.ErrnoException, socket: Duplex) => {
      const connection = this.#connections.get(socket as Socket);
      if (connection === undefined || error.code === "ECONNRESET") {
        socket.destroy();
        return;
      }
      const lastBytes = rawErrorResponse(malformedRequest(error, limits), common.of(undefined));
      if (error.code === "ERR_HTTP_REQUEST_TIMEOUT") connection.tooSlow(lastBytes);
      else connection.malformed(lastBytes);
    });
  }

  /** The quota key of a request's client; without a request, that of the connection's. */
  #clientOf(request: IncomingMessage | undefined, remoteAddress: string): string {
    const isInvalid = request === undefined || headerRefusal(request.rawHeaders, this.options.limits) !== undefined;
    const forwardedFor = isInvalid ? undefined : request.headers["x-forwarded-for"];
    return quotaKey(this.options.clients.of(remoteAddress, forwardedFor));
  }

  /**
   * Why a request with valid header fields is refused. One reason is that a proxy's client cancels too many calls;
   * other clients have their connections refused.
   */
  #refusalOf(request: IncomingMessage, clientAddress: string): Failure | undefined {
    const { host } = request.headers;
    if (host === undefined && request.httpVersion === "1.1") {
      return new HttpFailure(400, "invalid_argument", "HOST_MISSING", "an HTTP/1.1 request must have a Host header");
    }
    // RFC 9112, 3.2, requires this. Over HTTP/2, nghttp2 checks the authority.
    if (host !== undefined && !/^[\w.~!$&'()*+,;=%:[\]-]*$/.test(host)) {
      return new HttpFailure(400, "invalid_argument", "HOST_INVALID", "the Host header must be a host, or host:port");
    }
    const isProxied = this.options.clients.isProxy(request.socket.remoteAddress ?? "");
    const isExceeded = isProxied && this.cancelled.exceededBy(quotaKey(clientAddress));
    return isExceeded ? connectionRefusals.TOO_MANY_CANCELLED_CALLS : undefined;
  }

  /** Any upgrade other than a WebSocket handshake is parsed again without the header, which a server may ignore. */
  #upgrade(request: IncomingMessage, rest: Buffer): void {
    const { socket, method, httpVersion, headers } = request;
    const { limits, clients } = this.options;
    const clientAddress = clients.of(socket.remoteAddress, headers["x-forwarded-for"]);
    const refusal = headerRefusal(request.rawHeaders, limits) ?? this.#refusalOf(request, clientAddress);
    if (refusal !== undefined) {
      closeLingering(socket, limits.lingerMs, rawErrorResponse(refusal, this.options.common.of(headers.origin)));
      return;
    }
    if (method === "GET" && httpVersion === "1.1" && headers.upgrade?.toLowerCase() === "websocket") {
      const startedMs = performance.now();
      socket.once("close", () => {
        if (performance.now() - startedMs < earlyCancelMs) this.cancelled.allows(quotaKey(clientAddress));
      });
      this.options.handlers.upgrade(request, socket, rest);
      return;
    }
    const first = Buffer.concat([Buffer.from(withoutUpgrade(request), "latin1"), rest]);
    // The time that a connection without requests has: its last response may have set it.
    socket.setTimeout(0);
    socket.unshift(first);
    this.serve(socket, first);
  }
}

function hasBody(headers: IncomingHttpHeaders): boolean {
  return headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined;
}

/** The head of a request as it arrived, without its `Upgrade` header. */
function withoutUpgrade({ method, url, httpVersion, rawHeaders }: IncomingMessage): string {
  let head = `${method} ${url} HTTP/${httpVersion}\r\n`;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() !== "upgrade") head += `${rawHeaders[i]}: ${rawHeaders[i + 1]}\r\n`;
  }
  return `${head}\r\n`;
}

/** Interval between checks of connections, at most. */
const checkIntervalMs = 5_000;

/**
 * Closes HTTP/1.1 connections whose reader took nothing for `stalledMs`, and at most twice that. Node's server can do so
 * too, with a timer that every request of a kept connection sets and clears, which costs time in cached responses. Here
 * a connection gets its timer once it has bytes that its reader has not taken; progress renews it.
 */
export function watchStalled(sockets: ReadonlyMap<Socket, unknown>, stalledMs: number): NodeJS.Timeout {
  const watch = (): void => {
    for (const socket of sockets.keys()) {
      // The server itself closes a socket whose timer fires. It sets another timeout for idle connections.
      if (socket.writableLength > 0) {
        if (!socket.timeout) socket.setTimeout(stalledMs);
      } else if (socket.timeout === stalledMs) {
        // Everything was taken: a stream may be silent for longer.
        socket.setTimeout(0);
      }
    }
  };
  return setInterval(watch, Math.min(checkIntervalMs, stalledMs)).unref();
}
