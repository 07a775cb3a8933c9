import { once } from "node:events";
import { type AddressInfo, createServer, connect as netConnect, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** In how many pieces what a slow network takes a second for arrives. */
const piecesPerSecond = 20;

/**
 * Stands between a client and its database, and falls silent as a machine does that loses its power: connections stay
 * open on both sides, and nothing comes through any more. After `revive` new connections work; the old ones stay dead.
 */
export class HalfOpenProxy {
  /** The database's URL by way of this proxy. */
  readonly url: string;
  /** Each reply of the database arrives so much later. */
  replyDelayMs = 0;
  /** How fast what a client sends arrives. */
  bytesPerSecond = Number.POSITIVE_INFINITY;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #generation = 0;
  #isSilent = false;
  #trigger: { readonly text: string; readonly arrives: boolean; readonly reached: () => void } | undefined;

  private constructor(url: string, server: Server) {
    this.url = url;
    this.#server = server;
  }

  static async before(databaseUrl: string): Promise<HalfOpenProxy> {
    const url = new URL(databaseUrl);
    const socketPath = url.searchParams.get("socket");
    const target = socketPath === null ? { host: url.hostname, port: Number(url.port || 3306) } : { path: socketPath };
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    url.search = "";
    url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const proxy = new HalfOpenProxy(url.href, server);
    server.on("connection", (client) => proxy.#connect(client, target));
    return proxy;
  }

  /** Falls silent now. */
  die(): void {
    this.#generation++;
    this.#isSilent = true;
  }

  /** Falls silent when a client sends this text, which does not arrive. Resolves then. */
  dieAt(text: string): Promise<void> {
    return new Promise((reached) => {
      this.#trigger = { text, arrives: false, reached };
    });
  }

  /** The same, but the text arrives: only the response is lost. */
  loseReplyTo(text: string): Promise<void> {
    return new Promise((reached) => {
      this.#trigger = { text, arrives: true, reached };
    });
  }

  revive(): void {
    this.#isSilent = false;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }

  #connect(client: Socket, target: { host: string; port: number } | { path: string }): void {
    this.#keep(client);
    if (this.#isSilent) return;
    const generation = this.#generation;
    const database = netConnect(target);
    this.#keep(database);
    client.on("data", (chunk) => {
      const trigger = this.#trigger;
      if (trigger !== undefined && chunk.includes(trigger.text)) {
        this.#trigger = undefined;
        if (trigger.arrives) database.write(chunk);
        this.die();
        trigger.reached();
      }
      if (this.#generation === generation) void this.#pass(chunk, client, database);
    });
    database.on("data", (chunk) => {
      this.#reply(() => {
        if (this.#generation === generation) client.write(chunk);
      });
    });
    const end = () => {
      if (this.#generation !== generation) return;
      client.destroy();
      database.destroy();
    };
    client.on("close", end);
    // Behind what the database said last: an error, often.
    database.on("close", () => this.#reply(end));
  }

  /** Nothing more is read of the client until all of this has been passed on. */
  async #pass(chunk: Buffer, client: Socket, database: Socket): Promise<void> {
    const pieceBytes = Math.ceil(this.bytesPerSecond / piecesPerSecond);
    if (Number.isFinite(pieceBytes)) client.pause();
    for (let at = 0; at < chunk.length; at += pieceBytes) {
      if (Number.isFinite(pieceBytes)) await sleep(1_000 / piecesPerSecond);
      database.write(chunk.subarray(at, at + pieceBytes));
    }
    client.resume();
  }

  #reply(pass: () => void): void {
    if (this.replyDelayMs === 0) pass();
    else setTimeout(pass, this.replyDelayMs);
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => this.#sockets.delete(socket));
  }
}
