import { once } from "node:events";
import net, { type AddressInfo, type Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import tls, { type TLSSocket } from "node:tls";
import { addCounter, addGauge, type Metrics } from "../../telemetry/metrics.js";
import { CancelledCalls, ConnectionAdmission } from "./connection-admission.js";
import type { PortOptions } from "./exchange.js";
import { Http1Server } from "./http1-server.js";
import { Http2Sessions } from "./http2-sessions.js";
import { peekPreface } from "./raw-sockets.js";

/** One listening socket for HTTP/1.1 and HTTP/2, detected by ALPN under TLS and otherwise by the preface. */
export class OnePort {
  readonly #server: net.Server;
  readonly #http1: Http1Server;
  readonly #http2: Http2Sessions;
  readonly #admission: ConnectionAdmission;
  /** Connections whose version is not known yet. */
  readonly #undecided = new Set<Socket>();
  #draining = false;
  #cut = false;
  #accepted = 0;

  constructor(private readonly options: PortOptions) {
    const cancelled = new CancelledCalls(options.limits);
    this.#admission = new ConnectionAdmission(options, cancelled);
    this.#http1 = new Http1Server(options, cancelled);
    this.#http2 = new Http2Sessions(options, cancelled);
    this.#server = this.#createServer();
    this.#addMetrics(options.metrics);
  }

  /** Starts to listen and returns the port. @throws Error if the address is unavailable */
  async listen(host: string, port: number): Promise<number> {
    await once(this.#server.listen({ host, port }), "listening");
    return (this.#server.address() as AddressInfo).port;
  }

  /** Serves a connection that another process accepted, and read nothing of. */
  accept(socket: Socket): void {
    socket.allowHalfOpen = true;
    socket.setNoDelay(true);
    socket.setKeepAlive(true, this.options.limits.tcpKeepAliveMs);
    this.#server.emit("connection", socket);
  }

  /**
   * Stops listening, sends GOAWAY to HTTP/2 peers, and ends HTTP/1.1 connections with their next response or when idle.
   * Resolves when every connection has ended.
   */
  async drain(): Promise<void> {
    this.#draining = true;
    const { limits } = this.options;
    this.#http2.close();
    for (const socket of this.#undecided) socket.setTimeout(limits.drainIdleMs);
    this.#http1.drain();
    await this.#acceptPending();
    this.#server.close();
    await this.#admission.allClosed();
    this.#http1.stop();
  }

  /** Resolves when every connection of the kernel's queue is accepted; closing would reset the others. */
  async #acceptPending(): Promise<void> {
    const untilMs = performance.now() + this.options.limits.drainIdleMs;
    let accepted: number;
    // The event loop accepts one connection per turn.
    await setImmediate();
    do {
      accepted = this.#accepted;
      await setImmediate();
    } while (this.#accepted > accepted && !this.#cut && performance.now() < untilMs);
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

  #createServer(): net.Server {
    const { limits, tls: pem } = this.options;
    const options = { noDelay: true, keepAlive: true, keepAliveInitialDelay: limits.tcpKeepAliveMs };
    if (pem === undefined) {
      return net.createServer({ ...options, allowHalfOpen: true }, (socket) => {
        if (this.#admit(socket)) this.#detectProtocol(socket);
      });
    }
    const { certificate: cert, key } = pem;
    const ALPNProtocols = ["h2", "http/1.1"];
    const server = tls.createServer(
      { ...options, cert, key, ALPNProtocols, handshakeTimeout: limits.headersTimeoutMs },
      (socket: TLSSocket) => {
        if (socket.alpnProtocol === "h2") this.#http2.accept(socket);
        else this.#http1.serve(socket);
      },
    );
    server.prependListener("connection", (socket: Socket) => this.#admit(socket));
    return server.on("tlsClientError", (_error, socket) => socket.destroy());
  }

  #admit(socket: Socket): boolean {
    this.#accepted++;
    if (this.#cut) socket.destroy();
    return !this.#cut && this.#admission.admit(socket);
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
