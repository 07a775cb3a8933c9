import type { AddressInfo } from "node:net";
import { createServer, type Server, type Socket } from "node:net";
import { setImmediate, setTimeout } from "node:timers/promises";

/** A connection that no worker takes for this long is closed: its client has given up, or does better to try again. */
export const connectionWaitMaxMs = 10_000;

/** When the port closes, how long connections that were accepted may wait for a worker. */
export const closeMaxMs = 1_000;

const closePollMs = 5;

/** What connections are handed to. */
export interface ConnectionTaker {
  /** It can be handed a connection now. */
  readonly free: boolean;
  /** It takes no connections until others have closed. */
  readonly full: boolean;
  hand(socket: Socket): void;
}

interface WaitingConnection {
  readonly socket: Socket;
  readonly sinceMs: number;
}

/**
 * The public port, in the primary. It reads nothing of a connection: it hands each to the next worker in turn that is
 * free, so that long-lived ones are spread too. The port stays open however workers come and go; meanwhile connections
 * wait, a bounded number for a bounded time, and are closed beyond that.
 */
export class ConnectionDistributor {
  readonly #server: Server;
  /** The one that was handed a connection last is the last. */
  #takers: ConnectionTaker[] = [];
  #waiting: WaitingConnection[] = [];
  #accepted = 0;
  #refused = 0;

  /** @param waitingMax connections that may wait for a worker */
  constructor(waitingMax: number) {
    // Half open, as the worker will have it: a client may end its side behind its request.
    this.#server = createServer({ pauseOnConnect: true, allowHalfOpen: true }, (socket) => this.#accept(socket));
    this.#server.maxConnections = waitingMax;
    this.#server.on("drop", () => {
      this.#refused += 1;
    });
  }

  /** Connections that were closed since the start because no worker could take them. */
  get refused(): number {
    return this.#refused;
  }

  /** Resolves with the port. @throws Error when the address cannot be had */
  async listen(host: string, port: number): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen({ host, port }, () => {
        this.#server.off("error", reject);
        // Later ones are of single connections (no descriptor, a peer that has left), and are not the port's end.
        this.#server.on("error", () => {});
        resolve();
      });
    });
    return (this.#server.address() as AddressInfo).port;
  }

  /** `taker` gets its turn from now on. */
  add(taker: ConnectionTaker): void {
    this.#takers.unshift(taker);
    this.handOut();
  }

  /** `taker` gets no more connections. */
  remove(taker: ConnectionTaker): void {
    this.#takers = this.#takers.filter((other) => other !== taker);
  }

  /** To be called when a taker may have become free or full. */
  handOut(): void {
    while (this.#waiting.length > 0) {
      const taker = this.#next();
      if (taker === undefined) break;
      const next = this.#waiting.shift();
      if (next !== undefined) taker.hand(next.socket);
    }
    if (this.#allFull()) for (const { socket } of this.#waiting.splice(0)) this.#refuse(socket);
  }

  /** A connection that a taker was handed and did not get. */
  takeBack(socket: Socket): void {
    this.#accept(socket);
  }

  /** Closes connections that have waited too long; to be called now and then. */
  expire(): void {
    const before = performance.now() - connectionWaitMaxMs;
    while ((this.#waiting[0]?.sinceMs ?? Number.POSITIVE_INFINITY) < before) {
      const expired = this.#waiting.shift();
      if (expired !== undefined) this.#refuse(expired.socket);
    }
  }

  /** Closes the port. Resolves once nothing waits any more, which is at most {@link closeMaxMs}. */
  async close(): Promise<void> {
    const until = performance.now() + closeMaxMs;
    // Connections that are not accepted yet would be reset; the event loop accepts one in a turn.
    let accepted: number;
    do {
      accepted = this.#accepted;
      for (let turn = 0; turn < 2; turn++) await setImmediate();
    } while (this.#accepted > accepted && performance.now() < until);
    this.#server.close();
    while (this.#waiting.length > 0 && this.#takers.length > 0 && performance.now() < until)
      await setTimeout(closePollMs);
    this.#takers = [];
    for (const { socket } of this.#waiting.splice(0)) this.#refuse(socket);
  }

  #accept(socket: Socket): void {
    this.#accepted += 1;
    socket.on("error", () => {});
    const taker = this.#next();
    if (taker !== undefined) taker.hand(socket);
    else if (this.#allFull()) this.#refuse(socket);
    else this.#waiting.push({ socket, sinceMs: performance.now() });
  }

  #next(): ConnectionTaker | undefined {
    const at = this.#takers.findIndex((taker) => taker.free);
    const [taker] = at < 0 ? [] : this.#takers.splice(at, 1);
    if (taker !== undefined) this.#takers.push(taker);
    return taker;
  }

  #allFull(): boolean {
    return this.#takers.length > 0 && this.#takers.every((taker) => taker.full);
  }

  #refuse(socket: Socket): void {
    this.#refused += 1;
    socket.destroy();
  }
}
