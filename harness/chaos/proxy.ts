import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

/** What becomes of the bytes of a connection, and of new connections. */
export type Path =
  /** Everything passes. */
  | { readonly kind: "open" }
  /** Everything passes, so late in each direction. */
  | { readonly kind: "slow"; readonly delayMs: number }
  /** Connections are accepted and nothing passes; both sides stay open. What was held back passes once it is open. */
  | { readonly kind: "silent" }
  /** Connections are refused with a plain end, or with a reset. */
  | { readonly kind: "closed"; readonly reset: boolean };

class Link {
  path: Path;
  /** What has not passed yet, and when it may. It passes in order, as no network changes the order of a connection. */
  readonly #underWay: { dueMs: number; readonly action: () => void }[] = [];
  #timer: NodeJS.Timeout | undefined;
  /** For good: the peer is gone and nobody was told. */
  dead = false;

  constructor(
    readonly client: Socket,
    readonly server: Socket,
    path: Path,
    onClient: (link: Link, bytes: Buffer) => void,
  ) {
    this.path = path;
    client.on("data", (bytes) => {
      this.#pass(server, bytes);
      onClient(this, bytes);
    });
    server.on("data", (bytes) => this.#pass(client, bytes));
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      from.setNoDelay(true);
      from.on("error", () => {});
      from.on("end", () => this.#later(() => to.end()));
      from.on("close", () => this.#later(() => to.destroy()));
    }
  }

  /** Lets go what was held back. */
  release(): void {
    if (this.dead) return;
    for (const each of this.#underWay) if (each.dueMs === Number.POSITIVE_INFINITY) each.dueMs = 0;
    this.#arrive();
  }

  #pass(to: Socket, bytes: Buffer): void {
    this.#later(() => to.write(bytes));
  }

  #later(action: () => void): void {
    if (this.dead) return;
    this.#underWay.push({ dueMs: this.#dueMs(), action });
    this.#arrive();
  }

  #dueMs(): number {
    if (this.path.kind === "silent") return Number.POSITIVE_INFINITY;
    return this.path.kind === "slow" ? performance.now() + this.path.delayMs : 0;
  }

  #arrive(): void {
    clearTimeout(this.#timer);
    const now = performance.now();
    const nextMs = (): number => this.#underWay[0]?.dueMs ?? Number.POSITIVE_INFINITY;
    while (nextMs() <= now) this.#underWay.shift()?.action();
    if (nextMs() < Number.POSITIVE_INFINITY) this.#timer = setTimeout(() => this.#arrive(), nextMs() - now);
  }
}

/** Stands between marketd and its database, on a loopback port, and does to their connections what networks do. */
export class DatabaseProxy {
  readonly #links = new Set<Link>();
  #path: Path = { kind: "open" };
  #targets: readonly number[];
  #accepted = 0;
  #deadAfter: { readonly text: string; readonly done: () => void } | undefined;

  private constructor(
    readonly port: number,
    readonly server: Server,
    target: number,
  ) {
    this.#targets = [target];
    server.on("connection", (socket) => this.#accept(socket));
  }

  /** Listens in front of the server on loopback port `target`. */
  static async before(target: number): Promise<DatabaseProxy> {
    const server = createServer({ allowHalfOpen: true });
    await once(server.listen(0, "127.0.0.1"), "listening");
    return new DatabaseProxy(portOf(server), server, target);
  }

  /** Changes what becomes of new connections and of those that are open. */
  setPath(path: Path): void {
    this.#path = path;
    for (const link of this.#links) {
      if (path.kind === "closed") end(link, path.reset);
      link.path = path;
      if (path.kind !== "silent") link.release();
    }
  }

  /** New connections go to these ports in turn. */
  balance(targets: readonly number[]): void {
    this.#targets = targets;
  }

  /** Ends all connections; new ones pass. */
  cut(): void {
    for (const link of this.#links) end(link, false);
  }

  /** The connections of now hear nothing from each other any more, and nobody is told; new ones pass. */
  killQuietly(): void {
    for (const link of this.#links) link.dead = true;
  }

  /** The next connection on which the client sends `text` dies quietly as soon as that has passed. */
  killQuietlyAfter(text: string): Promise<void> {
    return new Promise((done) => {
      this.#deadAfter = { text, done };
    });
  }

  /** Forgets what {@link killQuietlyAfter} asked for. */
  forgetText(): void {
    this.#deadAfter = undefined;
  }

  /** Ends everything. */
  close(): void {
    this.server.close();
    for (const { client, server } of this.#links) {
      client.destroy();
      server.destroy();
    }
  }

  #accept(client: Socket): void {
    const path = this.#path;
    if (path.kind === "closed") {
      client.on("error", () => {});
      if (path.reset) client.resetAndDestroy();
      else client.destroy();
      return;
    }
    const port = this.#targets[this.#accepted++ % this.#targets.length] ?? 0;
    const server = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    const link = new Link(client, server, path, (each, bytes) => this.#heard(each, bytes));
    this.#links.add(link);
    const forget = () => {
      if (client.destroyed && server.destroyed) this.#links.delete(link);
    };
    client.on("close", forget);
    server.on("close", forget);
  }

  #heard(link: Link, bytes: Buffer): void {
    const wanted = this.#deadAfter;
    if (wanted === undefined || !bytes.includes(wanted.text)) return;
    this.#deadAfter = undefined;
    // What was just written to the server's socket still leaves.
    setImmediate(() => {
      link.dead = true;
      wanted.done();
    });
  }
}

function end({ client, server }: Link, reset: boolean): void {
  for (const socket of [client, server]) {
    if (reset && socket === client) socket.resetAndDestroy();
    else socket.destroy();
  }
}

/** The port that a server listens on. */
function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("a listening server has a port");
  return address.port;
}
