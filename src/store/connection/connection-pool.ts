import { type ConnectionSettings, Connector, type ServerConnection } from "./connection.js";
import { databaseAway, isSilence, isUnreachable } from "./database-error.js";
import type { DatabaseAddress } from "./database-url.js";
import { connectionsMax, type DatabaseOptions } from "./driver-options.js";
import { FairQueue, type SlotRequest, waitingMax, waitMsMax } from "./fair-queue.js";
import { ReadBehindError } from "./store-place.js";

/**
 * The longest silence of the server during a statement. Statements are bounded, but a disk may be slow. Dead peers are
 * usually found sooner, by the silence of other connections.
 */
export const statementTimeoutMs = 10_000;

/** Connections that are idle for longer are closed. */
export const idleConnectionMs = 60_000;

/** A connection that was silent for longer is probed before use. */
export const probeAfterIdleMs = 1_000;

/** The shortest time limit for reconnecting. */
export const reconnectMsMin = 1_000;

const sweepMs = 5_000;

/**
 * Connections to one server address. The most recently used one is leased first. When one proves dead, all that were
 * open then are suspect: idle ones are closed, and leased ones must respond soon.
 */
export class ConnectionPool {
  /** Who uses a connection next. A connection is opened only for a slot of the queue, so there are no more of them. */
  readonly queue: FairQueue;
  readonly onDenied: (error: unknown) => void;
  readonly #connector: Connector;
  readonly #statementTimeoutMs: number;
  readonly #idle: ServerConnection[] = [];
  readonly #leased = new Set<ServerConnection>();
  #closed = false;
  readonly #sweeper: NodeJS.Timeout;

  constructor(address: DatabaseAddress, options: DatabaseOptions = {}) {
    this.#connector = new Connector(address, reconnectMsMin);
    this.queue = new FairQueue({
      slots: options.connectionsMax ?? connectionsMax,
      waitingMax,
      waitMsMax,
      ...options.queue,
    });
    this.#statementTimeoutMs = options.statementTimeoutMs ?? statementTimeoutMs;
    this.onDenied = options.onDenied ?? (() => {});
    this.#sweeper = setInterval(() => this.#closeIdle(), sweepMs).unref();
  }

  /**
   * Runs `work` in its turn, on a connection that appears alive.
   * @throws Failure of the queue, `unavailable`, and whatever the work throws
   */
  run<T>(slot: SlotRequest, work: (connection: ServerConnection) => Promise<T>): Promise<T> {
    return this.queue.run(slot, async () => {
      const leased = await this.#lease();
      try {
        return await work(leased);
      } catch (error) {
        // A server can say goodbye on a connection that still looks alive, or lag: the next caller must not get it.
        if (isUnreachable(error) || error instanceof ReadBehindError) leased.destroy();
        if (isSilence(error)) this.suspect();
        throw error;
      } finally {
        this.#leased.delete(leased);
        if (!leased.isClosed) this.#idle.push(leased);
      }
    });
  }

  /** Opens a connection outside of the pool. @throws Failure `unavailable` */
  open(settings: Partial<ConnectionSettings> = {}): Promise<ServerConnection> {
    return this.#connector.open({ statementTimeoutMs: this.#statementTimeoutMs, ...settings });
  }

  /** A connection proved dead: all others that are open now are suspect. */
  suspect(): void {
    for (const connection of this.#idle.splice(0)) connection.destroy();
    for (const connection of this.#leased) connection.doubt();
  }

  /** Closes all connections; statements on leased ones fail. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#sweeper);
    for (const connection of this.#leased) connection.destroy();
    await Promise.all(this.#idle.splice(0).map((connection) => connection.end()));
  }

  async #lease(): Promise<ServerConnection> {
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
      if (idle.isClosed) continue;
      this.#leased.add(idle);
      if (!idle.isDoubted && idle.idleMs < probeAfterIdleMs) return idle;
      if (await idle.isAlive()) return idle;
      this.#leased.delete(idle);
      this.suspect();
    }
    if (this.#closed) throw databaseAway();
    const opened = await this.open();
    this.#leased.add(opened);
    if (!this.#closed) return opened;
    opened.destroy();
    throw databaseAway();
  }

  #closeIdle(): void {
    for (const connection of this.#idle.splice(0)) {
      if (connection.isClosed) continue;
      if (connection.idleMs < idleConnectionMs) this.#idle.push(connection);
      else void connection.end();
    }
  }
}
