import http, { type IncomingMessage, type ServerResponse } from "node:http";
import http2, {
  type Http2ServerRequest,
  type Http2ServerResponse,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import https from "node:https";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import type { Log } from "../telemetry/log.js";
import { closeSession } from "./connections/close-session.js";
import type { RepeatedGets } from "./http/repeated-gets.js";
import { Http1Connection } from "./http1-connection.js";
import type { TransportLimits } from "./limits.js";
import { malformedRequest } from "./malformed-request.js";
import { peekPreface } from "./peek-preface.js";
import { SessionTables } from "./session-tables.js";
import { StalledSockets } from "./stalled-sockets.js";

/** What the port hands over. */
export interface PortHandlers {
  request(request: IncomingMessage | Http2ServerRequest, response: ServerResponse | Http2ServerResponse): void;
  /** An HTTP/1.1 request to change the protocol; `head` is what came after its headers. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** An HTTP/2 stream, before Node makes a request of it. True: taken. */
  stream(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): boolean;
}

/** What the port is made of. */
export interface PortOptions {
  readonly tls: { readonly certificate: string; readonly key: string } | undefined;
  readonly limits: TransportLimits;
  readonly log: Log;
  readonly handlers: PortHandlers;
  readonly repeated: RepeatedGets;
}

/** An HTTP/2 session that is open. */
interface OpenSession {
  /** When the peer last gave a sign of life. */
  heardAtMs: number;
  readonly tables: SessionTables;
}

/** One listening socket for HTTP/1.1 and HTTP/2: told apart by ALPN under TLS, by the preface without. */
export class OnePort {
  readonly #options: PortOptions;
  readonly #http1: http.Server;
  readonly #http2: http2.Http2Server;
  readonly #sockets = new Set<Socket>();
  /** By their sockets, which under TLS are not those of `#sockets`. */
  readonly #http1Connections = new Map<Socket, Http1Connection>();
  /** Streams end by their own rule; this is for the reader of a large answer who never takes it. */
  readonly #stalled: StalledSockets;
  readonly #byAddress = new Map<string, number>();
  readonly #sessions = new Map<Http2Session, OpenSession>();
  #pings: NodeJS.Timeout | undefined;
  #onClosed = (): void => {};
  #draining = false;
  #refused = 0;

  constructor(options: PortOptions) {
    this.#options = options;
    this.#stalled = new StalledSockets(options.limits.stalledReaderMs, () => this.#http1Connections.keys());
    this.#http1 = this.#createHttp1();
    this.#http2 = this.#createHttp2();
  }

  /** Connections that are open now. */
  get connections(): number {
    return this.#sockets.size;
  }

  /** HTTP/2 sessions that are open now. */
  get sessions(): number {
    return this.#sessions.size;
  }

  /** Connections that were refused because there are too many. */
  get refused(): number {
    return this.#refused;
  }

  /** Gives the port that is listened on. @throws Error when the address cannot be had */
  listen(host: string, port: number): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#http1.once("error", reject);
      this.#http1.listen({ host, port }, () => {
        this.#http1.off("error", reject);
        this.#startPings();
        const address = this.#http1.address();
        resolve(typeof address === "object" && address !== null ? address.port : port);
      });
    });
  }

  /** Serves what {@link accept} is given, instead of listening itself. Gives `port` back. */
  open(port: number): number {
    // Node starts to check its time limits at this event.
    this.#http1.emit("listening");
    this.#startPings();
    return port;
  }

  /** Serves a connection that another process accepted and read nothing of. */
  accept(socket: Socket): void {
    // As Node's HTTP servers have them.
    socket.allowHalfOpen = true;
    socket.setNoDelay(true);
    socket.setKeepAlive(true, this.#options.limits.tcpKeepAliveMs);
    this.#http1.emit("connection", socket);
  }

  /** Stops listening, tells HTTP/2 peers to go, closes what idles. Resolves when every connection has ended. */
  drain(): Promise<void> {
    this.#draining = true;
    this.#options.repeated.stop();
    this.#http1.close();
    const closed = this.#allClosed();
    for (const session of this.#sessions.keys()) closeSession(session);
    const idle = setInterval(() => this.#http1.closeIdleConnections(), drainCheckIntervalMs);
    return closed.then(() => clearInterval(idle));
  }

  /** Cuts every connection. */
  cut(): void {
    clearInterval(this.#pings);
    this.#stalled.stop();
    for (const session of this.#sessions.keys()) session.destroy();
    for (const socket of this.#sockets) socket.destroy();
  }

  #startPings(): void {
    this.#pings = setInterval(() => this.#ping(), this.#options.limits.peerPingIntervalMs);
    this.#pings.unref();
  }

  /** Resolves when no connection is open. */
  #allClosed(): Promise<void> {
    return new Promise((resolve) => {
      const check = (): void => {
        if (this.#sockets.size === 0) resolve();
      };
      this.#onClosed = check;
      check();
    });
  }

  #createHttp1(): http.Server {
    const { limits, handlers, tls } = this.#options;
    const options = {
      maxHeaderSize: limits.headerBytesMax,
      headersTimeout: limits.headersTimeoutMs,
      requestTimeout: limits.requestReceiveTimeoutMs,
      keepAliveTimeout: limits.keepAliveTimeoutMs,
      connectionsCheckingInterval: Math.min(limits.headersTimeoutMs, timeoutCheckIntervalMs),
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: limits.tcpKeepAliveMs,
    };
    const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
      if (this.#draining) response.shouldKeepAlive = false;
      this.#http1Connections.get(request.socket)?.asked(request, response);
      handlers.request(request, response);
    };
    const server =
      tls === undefined
        ? http.createServer(options, onRequest)
        : https.createServer(
            {
              ...options,
              cert: tls.certificate,
              key: tls.key,
              ALPNProtocols: ["h2", "http/1.1"],
              handshakeTimeout: limits.headersTimeoutMs,
            },
            onRequest,
          );
    server.timeout = 0;
    this.#tellApart(server);
    server.on("upgrade", (request, socket, head) => {
      this.#http1Connections.get(request.socket)?.release();
      handlers.upgrade(request, socket, head);
    });
    server.on("clientError", (error: NodeJS.ErrnoException, socket: Duplex) => malformedRequest(error, socket, limits));
    server.on("tlsClientError", () => {});
    return server;
  }

  /** Puts itself between the listening socket and the HTTP/1.1 server, which must listen to keep its timeouts. */
  #tellApart(server: http.Server): void {
    const event = this.#options.tls === undefined ? "connection" : "secureConnection";
    const http1Listeners = server.listeners(event);
    server.removeAllListeners(event);
    const toHttp1 = (socket: Socket): void => {
      this.#http1Connections.set(socket, new Http1Connection(socket, this.#options.repeated));
      socket.once("close", () => this.#http1Connections.delete(socket));
      for (const listener of http1Listeners) Reflect.apply(listener, server, [socket]);
    };
    const toHttp2 = (socket: Socket): void => {
      // An HTTP/1 server leaves its sockets half open; an HTTP/2 session would not notice that its peer has gone.
      socket.allowHalfOpen = false;
      this.#http2.emit("connection", socket);
    };
    server.prependListener("connection", (socket: Socket) => {
      if (!this.#admit(socket)) return;
      if (event !== "connection") return;
      peekPreface(socket, this.#options.limits.headersTimeoutMs, (http2) => {
        if (http2) toHttp2(socket);
        else toHttp1(socket);
      });
    });
    if (event === "connection") return;
    server.on("secureConnection", (socket: TLSSocket) => {
      if (socket.alpnProtocol === "h2") toHttp2(socket);
      else toHttp1(socket);
    });
  }

  #admit(socket: Socket): boolean {
    const { connectionsMax, connectionsPerAddressMax } = this.#options.limits;
    const address = socket.remoteAddress ?? "";
    const ofAddress = (this.#byAddress.get(address) ?? 0) + 1;
    const tooMany = connectionsPerAddressMax > 0 && ofAddress > connectionsPerAddressMax;
    if (this.#sockets.size >= connectionsMax || tooMany || this.#draining) {
      this.#refused++;
      socket.destroy();
      return false;
    }
    this.#sockets.add(socket);
    this.#byAddress.set(address, ofAddress);
    socket.once("close", () => {
      this.#sockets.delete(socket);
      this.#onClosed();
      const left = (this.#byAddress.get(address) ?? 1) - 1;
      if (left === 0) this.#byAddress.delete(address);
      else this.#byAddress.set(address, left);
    });
    return true;
  }

  #createHttp2(): http2.Http2Server {
    const { limits, handlers, log } = this.#options;
    const compat = http2.createServer((request, response) => handlers.request(request, response));
    const server = http2.createServer({
      settings: {
        maxConcurrentStreams: limits.http2StreamsPerConnectionMax,
        maxHeaderListSize: limits.headerBytesMax,
        enablePush: false,
      },
      maxSessionMemory: limits.http2SessionMegabytesMax,
      maxSessionInvalidFrames: 100,
      maxSessionRejectedStreams: 100,
    });
    server.on("session", (session) => {
      this.#sessions.set(session, { heardAtMs: Date.now(), tables: new SessionTables(session) });
      session.once("close", () => this.#sessions.delete(session));
      // Node keeps a session for ever whose peer sent a broken first frame and hung up: nothing tells of it.
      const greeting = setTimeout(() => session.destroy(), limits.headersTimeoutMs);
      session.once("remoteSettings", () => clearTimeout(greeting));
      session.once("close", () => clearTimeout(greeting));
      if (this.#draining) closeSession(session);
    });
    server.on("stream", (stream, headers, flags, rawHeaders: string[]) => {
      if (stream.session !== undefined) this.#sessions.get(stream.session)?.tables.streamOpened();
      if (!handlers.stream(stream, headers)) compat.emit("stream", stream, headers, flags, rawHeaders);
    });
    server.on("sessionError", (error) => log.debug({ err: error }, "an HTTP/2 connection failed"));
    return server;
  }

  #ping(): void {
    const silentBefore = Date.now() - this.#options.limits.peerSilenceMaxMs;
    for (const [session, open] of this.#sessions) {
      if (open.heardAtMs < silentBefore) {
        session.destroy();
        continue;
      }
      session.ping(() => {
        open.heardAtMs = Date.now();
      });
    }
  }
}

/** How often a drain looks for connections that have become idle. */
const drainCheckIntervalMs = 20;

/** How often connections are checked for requests that take too long to arrive, at most. */
const timeoutCheckIntervalMs = 5_000;
