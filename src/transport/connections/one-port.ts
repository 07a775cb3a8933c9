import type { Socket } from "node:net";
import tls from "node:tls";
import { addCounter, addGauge, type Metrics } from "../../telemetry/metrics.js";
import { CancelledCalls, ConnectionAdmission } from "./connection-admission.js";
import type { PortOptions } from "./exchange.js";
import { Http1Server } from "./http1-server.js";
import { Http2Sessions } from "./http2-sessions.js";
import { peekPreface } from "./raw-sockets.js";

/**
 * The connections of one port, HTTP/1.1 and HTTP/2, detected by ALPN under TLS and otherwise by the preface. Another
 * process listens.
 */
export class OnePort {
  /** Undefined: without TLS. It does not listen. */
  readonly #tls: tls.Server | undefined;
  readonly #http1: Http1Server;
  readonly #http2: Http2Sessions;
  readonly #admission: ConnectionAdmission;
  /** Connections whose version is not known yet. */
  readonly #undecided = new Set<Socket>();
  #draining = false;
  #cut = false;

  constructor(private readonly options: PortOptions) {
    const cancelled = new CancelledCalls(options.limits);
    this.#admission = new ConnectionAdmission(options, cancelled);
    this.#http1 = new Http1Server(options, cancelled);
    this.#http2 = new Http2Sessions(options, cancelled);
    this.#tls = this.#createTls();
    this.#addMetrics(options.metrics);
  }

  /** Serves a connection that another process accepted, and read nothing of. */
  accept(socket: Socket): void {
    socket.allowHalfOpen = true;
    socket.setNoDelay(true);
    socket.setKeepAlive(true, this.options.limits.tcpKeepAliveMs);
    if (this.#cut) socket.destroy();
    else if (!this.#admission.admit(socket)) return;
    else if (this.#tls === undefined) this.#detectProtocol(socket);
    else this.#tls.emit("connection", socket);
  }

  /**
   * Sends GOAWAY to HTTP/2 peers, and ends HTTP/1.1 connections with their next response or when idle. Resolves when
   * every connection has ended.
   */
  async drain(): Promise<void> {
    this.#draining = true;
    const { limits } = this.options;
    this.#http2.close();
    for (const socket of this.#undecided) socket.setTimeout(limits.drainIdleMs);
    this.#http1.drain();
    await this.#admission.allClosed();
    this.#http1.stop();
  }

  /** Closes every connection at once. */
  cut(): void {
    this.#cut = true;
    this.#http2.destroy();
    this.#admission.cut();
  }

  #addMetrics(metrics: Metrics): void {
    const sessions = () => this.#http2.size;
    const refusedHelp = "Connections refused because there are too many, by the reason of their error.";
    const refused = () => this.#admission.refused;
    addGauge(metrics, "marketd_connections_open", "Connections that are open now.", () => this.#admission.size);
    addGauge(metrics, "marketd_http2_sessions_open", "Connections that speak HTTP/2 now.", sessions);
    addCounter(metrics, "marketd_connections_refused_total", refusedHelp, refused, { label: "reason" });
  }

  #createTls(): tls.Server | undefined {
    const { limits, tls: pem } = this.options;
    if (pem === undefined) return undefined;
    const options = { cert: pem.certificate, key: pem.key, ALPNProtocols: ["h2", "http/1.1"] };
    const server = tls.createServer({ ...options, handshakeTimeout: limits.headersTimeoutMs }, (socket) => {
      if (socket.alpnProtocol === "h2") this.#http2.accept(socket);
      else this.#http1.serve(socket);
    });
    return server.on("tlsClientError", (_error, socket) => socket.destroy());
  }

  #detectProtocol(socket: Socket): void {
    this.#undecided.add(socket);
    socket.once("close", () => this.#undecided.delete(socket));
    const { headersTimeoutMs, drainIdleMs } = this.options.limits;
    peekPreface(socket, this.#draining ? drainIdleMs : headersTimeoutMs, (http2, held) => {
      this.#undecided.delete(socket);
      if (http2) this.#http2.accept(socket);
      else this.#http1.serve(socket, held);
    });
  }
}
