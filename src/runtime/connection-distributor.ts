import { createServer, type Server, type Socket } from "node:net";
import { setImmediate, setTimeout } from "node:timers/promises";
import { RateLimit } from "../domain/rate-limit.js";
import { startListening } from "./listen-error.js";
import { WaitingConnections } from "./waiting-connections.js";
import type { WorkerProcess } from "./worker-process.js";

/** A connection that no worker takes for this long is closed. Its client has given up, or should retry. */
export const connectionWaitMaxMs = 10_000;

/** How long accepted connections may wait for a worker after the port closes. */
export const closeMaxMs = 1_000;

/** Connections that the kernel queues until the primary accepts them; Linux uses at most `net.core.somaxconn`. */
export const listenBacklog = 4_096;

/** Connections that are given a reason for their refusal at one time; at most a quarter of those that may wait. */
export const refusalsMax = 32;

/** Such refusals per second; each costs four times as much as accepting a connection. */
export const refusalsPerSecondMax = 200;

const closePollMs = 5;

/** Tells a client that no worker takes its connection, and closes it within a bounded time. `isClosing`: the port is. */
export type RefuseConnection = (socket: Socket, isClosing: boolean) => void;

/**
 * The public port, in the primary. It hands each unread connection to the next free worker in turn, so that long-lived
 * ones are spread too. The port stays open when workers end. Meanwhile a bounded number of connections waits for a
 * bounded time; beyond that the oldest are refused.
 *
 * A worker takes one connection per turn of its event loop, because Node's channel delivers one. So many may wait, and
 * client addresses take turns.
 */
export class ConnectionDistributor {
  readonly #server: Server;
  /** Those that take connections. The one that was handed one last is at the end. */
  #workers: WorkerProcess[] = [];
  readonly #waiting = new WaitingConnections();
  readonly #connectionsMax: number;
  readonly #waitingMax: number;
  readonly #refusalsMax: number;
  readonly #refusalRate = new RateLimit(refusalsPerSecondMax, refusalsPerSecondMax);
  readonly #sendRefusal: RefuseConnection;
  /** Connections that wait, are being handed over, or are being refused. */
  #open = 0;
  #refusing = 0;
  #accepted = 0;
  #refused = 0;

  /** @param connectionsMax the limit on connections that wait or are being refused */
  constructor(connectionsMax: number, refuse: RefuseConnection) {
    this.#connectionsMax = connectionsMax;
    this.#refusalsMax = Math.min(refusalsMax, Math.floor(connectionsMax / 4));
    // The same number may wait for their refusal.
    this.#waitingMax = connectionsMax - 2 * this.#refusalsMax;
    this.#sendRefusal = refuse;
    // Half open: a client that ends its side at once hears from the worker, or why it was refused.
    this.#server = createServer({ pauseOnConnect: true, allowHalfOpen: true }, (socket) => this.#accept(socket));
  }

  /** Connections that were closed because no worker could take them. */
  get refused(): number {
    return this.#refused;
  }

  /** Resolves with the port. @throws Error if the address is unavailable */
  listen(host: string, port: number): Promise<number> {
    return startListening(this.#server, { host, port, backlog: listenBacklog });
  }

  /** `worker` receives connections from now on. */
  add(worker: WorkerProcess): void {
    this.#workers.unshift(worker);
    this.handOut();
  }

  /** `worker` receives no more connections. */
  remove(worker: WorkerProcess): void {
    this.#workers = this.#workers.filter((other) => other !== worker);
  }

  /** Call it when a worker may have become free or full. */
  handOut(): void {
    while (this.#waiting.size > 0) {
      const worker = this.#next();
      if (worker === undefined) break;
      const socket = this.#waiting.takeNext();
      if (socket !== undefined) worker.hand(socket);
    }
    const kept = this.#allFull() ? 0 : this.#waitingMax;
    while (this.#waiting.size > kept && this.#refusing < this.#refusalsMax) this.#refuse(this.#waiting.takeExcess());
  }

  /** A connection waits for a worker: a new one, or one that was handed to a worker and did not reach it. */
  wait(socket: Socket): void {
    this.#waiting.add(socket);
    this.handOut();
  }

  /** Refuses connections that have waited too long. Call it at intervals. */
  expire(): void {
    const beforeMs = performance.now() - connectionWaitMaxMs;
    for (;;) {
      const socket = this.#waiting.takeOlder(beforeMs);
      if (socket === undefined) return;
      this.#refuse(socket);
    }
  }

  /** Closes the port. Resolves when nothing waits any more, after {@link closeMaxMs} at most. */
  async close(): Promise<void> {
    const until = performance.now() + closeMaxMs;
    // Closing would reset connections that are not accepted yet; the event loop accepts one per turn.
    let accepted: number;
    do {
      accepted = this.#accepted;
      for (let turn = 0; turn < 2; turn++) await setImmediate();
    } while (this.#accepted > accepted && performance.now() < until);
    this.#server.close();
    while (this.#waiting.size > 0 && this.#workers.length > 0 && performance.now() < until)
      await setTimeout(closePollMs);
    this.#workers = [];
    while (this.#waiting.size > 0) this.#refuse(this.#waiting.takeExcess());
  }

  #accept(socket: Socket): void {
    this.#accepted += 1;
    this.#open += 1;
    socket.once("close", () => {
      this.#open -= 1;
    });
    socket.on("error", () => {});
    this.wait(socket);
    if (this.#open > this.#connectionsMax) this.#refuse(this.#waiting.takeExcess());
  }

  #next(): WorkerProcess | undefined {
    const at = this.#workers.findIndex((worker) => worker.free);
    const [worker] = at < 0 ? [] : this.#workers.splice(at, 1);
    if (worker !== undefined) this.#workers.push(worker);
    return worker;
  }

  #allFull(): boolean {
    return this.#workers.length > 0 && this.#workers.every((worker) => worker.full);
  }

  /** Beyond those that are given a reason, connections are just closed, which frees their descriptors. */
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
    this.#sendRefusal(socket, !this.#server.listening);
  }
}
