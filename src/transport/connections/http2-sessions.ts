import http2, { type Http2Session } from "node:http2";
import type { Socket } from "node:net";
import { ClientQuota, heldRetryMs } from "../../domain/client-quota.js";
import { unavailable } from "../../domain/failure.js";
import { TurnShares } from "../call/event-loop.js";
import type { TransportLimits } from "../options.js";
import type { CancelledCalls } from "./connection-admission.js";
import { Http2Exchange, type PortOptions } from "./exchange.js";
import { Http2Connection, type SharedByConnections } from "./http2-connection.js";
import { headerRefusal, unmetExpectation } from "./raw-sockets.js";

/** Interval between checks of connections and streams, at most. */
const checkIntervalMs = 2_000;

/**
 * RST_STREAM frames of one connection, which may be a proxy's with many clients. {@link Http2Connection} counts the calls
 * of each. Node 20 has no such setting: 1,000, and 33 a second.
 */
const streamResetsPerSecondMax = 10_000;

/** Connections, and their streams, that are checked in one turn of the event loop. */
const checksPerTurnMax = 100;
const streamChecksPerTurnMax = 5_000;

/** Serves HTTP/2 connections, and ends those whose peers are gone. */
export class Http2Sessions {
  readonly #options: PortOptions;
  readonly #shared: SharedByConnections;
  readonly #server: http2.Http2Server;
  readonly #connections = new Map<Http2Session, Http2Connection>();
  readonly #checks: NodeJS.Timeout;
  #closing = false;

  constructor(options: PortOptions, cancelled: CancelledCalls) {
    this.#options = options;
    this.#shared = { cancelled, turns: new TurnShares(), openStreams: countOpenStreams(options.limits) };
    this.#server = this.#createServer();
    const { peerPingIntervalMs, stalledReaderMs } = options.limits;
    const intervalMs = Math.min(checkIntervalMs, peerPingIntervalMs, stalledReaderMs);
    this.#checks = setInterval(() => this.#check(), intervalMs);
    this.#checks.unref();
  }

  /** Sessions that are open now. */
  get size(): number {
    return this.#connections.size;
  }

  /** Serves a connection of an HTTP/2 client, of which nothing was read yet. */
  accept(socket: Socket): void {
    // Sockets of an HTTP/1 server stay half open; an HTTP/2 session would not notice that its peer is gone.
    socket.allowHalfOpen = false;
    this.#server.emit("connection", socket);
  }

  /** Sends GOAWAY to current and future peers; each session ends with its last stream. */
  close(): void {
    this.#closing = true;
    for (const connection of this.#connections.values()) connection.close();
  }

  /** Ends every session at once. */
  destroy(): void {
    clearInterval(this.#checks);
    for (const session of this.#connections.keys()) session.destroy();
  }

  #createServer(): http2.Http2Server {
    const { limits, log, handlers } = this.#options;
    const server = http2.createServer({
      settings: {
        maxConcurrentStreams: limits.http2StreamsPerConnectionMax,
        maxHeaderListSize: 2 * limits.headerBytesMax,
        enablePush: false,
      },
      maxHeaderListPairs: 2 * limits.headerFieldsMax,
      maxSessionMemory: limits.http2SessionMegabytesMax,
      maxSessionInvalidFrames: 100,
      maxSessionRejectedStreams: 100,
      streamResetBurst: streamResetsPerSecondMax,
      streamResetRate: streamResetsPerSecondMax,
    });
    server.on("session", (session) => this.#opened(session));
    const serve = (exchange: Http2Exchange, rawHeaders: readonly string[]): void => {
      const { expect } = exchange.headers;
      const refusal = headerRefusal(rawHeaders, limits) ?? unmetExpectation(expect);
      if (refusal !== undefined) exchange.sendError(refusal);
      else {
        if (expect !== undefined && !exchange.isGone) exchange.output.additionalHeaders({ ":status": 100 });
        handlers.request(exchange);
      }
      // Nobody reads the body, and its bytes would keep the connection's window.
      if (exchange.body.readableFlowing === null) exchange.body.resume();
    };
    server.on("stream", (stream, headers, _flags, raw: string[]) => {
      // Without a listener, a reset stream would end the process. "close" follows, which ends the call.
      stream.on("error", ignore);
      const connection = stream.session === undefined ? undefined : this.#connections.get(stream.session);
      connection?.streamOpened(stream, headers, raw.length / 2, () => {
        serve(new Http2Exchange(stream, headers, connection.address, this.#options), raw);
      });
    });
    server.on("sessionError", (error) => log.debug({ err: error }, "an HTTP/2 connection failed"));
    return server;
  }

  #opened(session: Http2Session): void {
    const connection = new Http2Connection(session, this.#options, this.#shared);
    this.#connections.set(session, connection);
    // Node keeps a session forever if its peer sent an invalid first frame and hung up; no event reports it.
    const greeting = setTimeout(() => session.destroy(), this.#options.limits.headersTimeoutMs);
    session.once("remoteSettings", () => clearTimeout(greeting));
    session.once("close", () => {
      clearTimeout(greeting);
      this.#connections.delete(session);
    });
    if (this.#closing) connection.close();
  }

  /** Checks some connections per turn: pinging thousands at once would delay the others. */
  #check(connections: Iterator<Http2Connection, unknown> = this.#connections.values()): void {
    const nowMs = performance.now();
    const scarce = this.#connections.size > this.#options.limits.connectionsMax / 2;
    let streams = 0;
    for (let i = 0; i < checksPerTurnMax && streams < streamChecksPerTurnMax; i++) {
      const { done, value } = connections.next();
      if (done === true) return;
      streams += value.check(nowMs, scarce);
    }
    setImmediate(() => this.#check(connections));
  }
}

function countOpenStreams(limits: TransportLimits): ClientQuota {
  const { http2StreamsMax, http2StreamsPerAddressMax, streamsMax, streamsPerAddressMax } = limits;
  const ofAddressMax = Math.max(http2StreamsPerAddressMax, 2 * streamsPerAddressMax);
  const ofClientMax = streamsPerAddressMax === 0 ? Number.POSITIVE_INFINITY : ofAddressMax;
  // The stream is reset: its client learns nothing more.
  const refused = () => unavailable("too many HTTP/2 streams are open", "TOO_MANY_STREAMS", heldRetryMs);
  return new ClientQuota({
    ofClientMax,
    inAllMax: Math.max(http2StreamsMax, 2 * streamsMax),
    ofClient: refused,
    inAll: refused,
  });
}

function ignore(): void {}
