import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

/** Hands TCP connections to its ports in turn. Can go silent: what is sent either way is dropped, and nothing is closed. */
export class TcpBalancer {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Connections that are silent stay so. */
  #silent = false;
  #turn = 0;
  #delayMs = 0;
  /** After how many bytes of the server each of the next connections breaks. */
  #breaks: number[] = [];

  #ports: readonly number[];

  private constructor(ports: readonly number[], server: Server) {
    this.#ports = ports;
    this.#server = server;
    server.on("connection", (client) => this.#join(client));
  }

  static async before(...ports: number[]): Promise<TcpBalancer> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    return new TcpBalancer(ports, server);
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === "object" && address !== null ? address.port : 0;
  }

  /** Connections that were handed on since the start. */
  get handed(): number {
    return this.#turn;
  }

  /** Connections that are open now. */
  get connections(): number {
    return this.#sockets.size / 2;
  }

  /** Breaks every connection, and hands new ones to these ports. */
  leadTo(...ports: number[]): void {
    this.leadNewTo(...ports);
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Hands new connections to these ports; those that are open stay. */
  leadNewTo(...ports: number[]): void {
    this.#ports = ports;
  }

  /** The connections that are there now are dead from here on, and so are new ones until {@link speak}. */
  silence(): void {
    this.#silent = true;
    for (const socket of this.#sockets) mute(socket);
  }

  /** Only the connections that are there now are dead from here on. */
  silenceOpen(): void {
    for (const socket of this.#sockets) mute(socket);
  }

  speak(): void {
    this.#silent = false;
  }

  /** What the server says first on new connections comes so much later. */
  delayNew(ms: number): void {
    this.#delayMs = ms;
  }

  /** Breaks the next connections, each after so many bytes of the server. */
  breakNext(...bytes: number[]): void {
    this.#breaks = bytes;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }

  #join(client: Socket): void {
    const port = this.#ports[this.#turn++ % this.#ports.length] ?? 0;
    const server = connect(port, "127.0.0.1");
    client.pipe(server);
    const left = this.#breaks.shift();
    if (left !== undefined) breakAfter(left, server, client);
    else if (this.#delayMs === 0) server.pipe(client);
    else setTimeout(() => server.pipe(client), this.#delayMs);
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
    if (!this.#silent) return;
    mute(client);
    mute(server);
  }
}

/** Passes on so many bytes, and then breaks the connection. */
function breakAfter(bytes: number, server: Socket, client: Socket): void {
  server.once("data", (data) => client.write(data.subarray(0, bytes), () => client.destroy()));
}

/** Reads on, so that nothing is held up, and passes nothing on, the end included. */
function mute(socket: Socket): void {
  socket.unpipe();
  socket.removeAllListeners("end");
  socket.resume();
}
