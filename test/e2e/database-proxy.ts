import { once } from "node:events";
import { createServer, connect as netConnect, type Server, type Socket } from "node:net";

/** Stands between a service and its database, and takes the database away from it at will. */
export class DatabaseProxy {
  /** The database's URL by way of this proxy. */
  readonly url: string;
  /** Packets that clients have sent: about one for each statement. */
  requests = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #state: { away: boolean };

  private constructor(url: string, server: Server, state: { away: boolean }) {
    this.url = url;
    this.#server = server;
    this.#state = state;
    server.on("connection", (socket) => {
      this.#keep(socket);
      socket.on("data", () => this.requests++);
    });
  }

  static async before(databaseUrl: string): Promise<DatabaseProxy> {
    const url = new URL(databaseUrl);
    const socketPath = url.searchParams.get("socket");
    const target = socketPath === null ? { host: url.hostname, port: Number(url.port || 3306) } : { path: socketPath };
    const state = { away: false };
    const server = createServer((client) => {
      if (state.away) {
        client.destroy();
        return;
      }
      const database = netConnect(target);
      client.pipe(database).pipe(client);
      client.on("error", () => {}).on("close", () => database.destroy());
      database.on("error", () => {}).on("close", () => client.destroy());
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("a listening server has a port");
    url.search = "";
    url.host = `127.0.0.1:${address.port}`;
    return new DatabaseProxy(url.href, server, state);
  }

  /** Breaks every connection, and refuses new ones. */
  cut(): void {
    this.#state.away = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  restore(): void {
    this.#state.away = false;
  }

  async close(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, "close");
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
  }
}
