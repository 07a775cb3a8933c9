import type { AddressInfo } from "node:net";
import { createServer, type Server, type Socket } from "node:net";
import { setImmediate, setTimeout } from "node:timers/promises";
import { RateLimit } from "../domain/rate-limit.js";
import { WaitingConnections } from "./waiting-connections.js";

/** A connection that no worker takes for this long is closed: its client has given up, or does better to try again. */
export const connectionWaitMaxMs = 10_000;

/** When the port closes, how long connections that were accepted may wait for a worker. */
export const closeMaxMs = 1_000;

/** Connections that the kernel keeps until the primary accepts them; Linux takes at most `net.core.somaxconn`. */
export const listenBacklog = 4_096;

/** Connections that are told at one time why no worker takes them, and at most a quarter of those that may wait. */
export const refusalsMax = 32;

/** Connections that are told so in a second; it costs four times as much as to accept one. */
export const refusalsPerSecondMax = 200;

const closePollMs = 5;

/** What connections are handed to. */
export interface ConnectionTaker {
  /** It can be handed a connection now. */
  readonly free: boolean;
  /** It takes no connections until others have closed. */
  readonly full: boolean;
  hand(socket: Socket): void;
}

/** Tells a client that no worker takes its connection, and closes that within a bounded time. */
export type RefuseConnection = (socket: Socket) => void;

/**
 * The public port, in the primary. It reads nothing of a connection: it hands each to the next worker in turn that is
 * free, so that long-lived ones are spread too. The port stays open however workers come and go; meanwhile connections
 * wait, a bounded number for a bounded time, and the oldest are refused beyond that.
 *
 * A worker takes one connection per turn of its event loop, because Node's channel does. So many may wait, and clients
 * get their turns one after the other.
 */
export class ConnectionDistributor {
  readonly #server: Server;
  /** The one that was handed a connection last is the last. */
  #takers: ConnectionTaker[] = [];
  readonly #waiting = new WaitingConnections();
  readonly #connectionsMax: number;
  readonly #waitingMax: number;
  readonly #refusalsMax: number;
  readonly #refusalRate = new RateLimit(refusalsPerSecondMax, refusalsPerSecondMax);
  readonly #sendRefusal: RefuseConnection;
  /** Those that wait, are being handed over or are being refused. */
  #open = 0;
  #refusing = 0;
  #accepted = 0;
  #refused = 0;

  /** @param connectionsMax connections that may be open here: those that wait, and those that are being refused */
  constructor(connectionsMax: number, refuse: RefuseConnection) {
    this.#connectionsMax = connectionsMax;
    this.#refusalsMax = Math.min(refusalsMax, Math.floor(connectionsMax / 4));
    // As many again may wait to be refused.
    this.#waitingMax = connectionsMax - 2 * this.#refusalsMax;
    this.#sendRefusal = refuse;
    // Half open, as the worker will have it: a client may end its side behind its request.
    this.#server = createServer({ pauseOnConnect: true, allowHalfOpen: true }, (socket) => this.#accept(socket));
  }

  /** Connections that were closed since the start because no worker could take them. */
  get refused(): number {
    return this.#refused;
  }

  /** Resolves with the port. @throws Error when the address cannot be had */
  async listen(host: string, port: number): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen({ host, port, backlog: listenBacklog }, () => {
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
    while (this.#waiting.size > 0) {
      const taker = this.#next();
      if (taker === undefined) break;
      const socket = this.#waiting.takeNext();
      if (socket !== undefined) taker.hand(socket);
    }
    const kept = this.#allFull() ? 0 : this.#waitingMax;
    while (this.#waiting.size > kept && this.#refusing < this.#refusalsMax) this.#refuse(this.#waiting.takeExcess());
  }

  /** A connection that a taker was handed and did not get. */
  takeBack(socket: Socket): void {
    this.#wait(socket);
  }

  /** Refuses connections that have waited too long; to be called now and then. */
  expire(): void {
    const beforeMs = performance.now() - connectionWaitMaxMs;
    for (;;) {
      const socket = this.#waiting.takeOlder(beforeMs);
      if (socket === undefined) return;
      this.#refuse(socket);
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
    while (this.#waiting.size > 0 && this.#takers.length > 0 && performance.now() < until)
      await setTimeout(closePollMs);
    this.#takers = [];
    while (this.#waiting.size > 0) this.#refuse(this.#waiting.takeExcess());
  }

  #accept(socket: Socket): void {
    this.#accepted += 1;
    this.#open += 1;
    socket.once("close", () => {
      this.#open -= 1;
    });
    socket.on("error", () => {});
    this.#wait(socket);
    if (this.#open > this.#connectionsMax) this.#refuse(this.#waiting.takeExcess());
  }

  #wait(socket: Socket): void {
    this.#waiting.add(socket);
    this.handOut();
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

  /** Beyond those that can be told, a connection is just closed, so that the others keep their descriptors. */
  #refuse(socket: Socket | undefined): void {
    if (socket === undefined) return;
    this.#refused += 1;
    if (this.#refusing >= this.#refusalsMax || !this.#refusalRate.allows()) {
      socket.destroy();
      return;
    }
    this.#refusing += 1;
    socket.once("close", () => {
      this.#refusing -= 1;
      this.handOut();
    });
    this.#sendRefusal(socket);
  }
}
