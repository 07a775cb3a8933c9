import { type Failure, unavailable } from "../domain/failure.js";
import { databaseRetryAfterMs, isUnreachable } from "./database-error.js";
import type { DatabaseAddress } from "./database-url.js";
import { connectionsMax, connectTimeoutMs, type DatabaseOptions, waitersMax } from "./driver-connection.js";
import { ServerConnection } from "./server-connection.js";

/**
 * The longest silence of the server during a statement. Statements are bounded, but a disk may be slow. Dead peers are
 * usually found sooner, by the silence of other connections.
 */
export const statementTimeoutMs = 10_000;

/** Connections that are idle for longer are closed. */
export const idleConnectionMs = 60_000;

/** A connection that was silent for longer is probed before use. */
export const probeAfterIdleMs = 1_000;

/**
 * The shortest time limit for reconnecting. The limit is four times the duration of the last connect, up to
 * `connectTimeoutMs`. Attempts that began while the server was away must not delay its return.
 */
export const reconnectMsMin = 1_000;

const reconnectFactor = 4;

const sweepMs = 5_000;

/** Settings of one connection. */
interface OpenOptions {
  readonly multipleStatements?: boolean;
  /** Undefined: as the pool's. */
  readonly statementTimeoutMs?: number | undefined;
}

/** A call that waits for a connection. */
interface Waiter {
  give(connection: ServerConnection): void;
  fail(error: unknown): void;
}

/**
 * Connections to one server address. The most recently used one is leased first. When one proves dead, all that were
 * open then are suspect: idle ones are closed, and leased ones must respond soon.
 */
export class ConnectionPool {
  readonly #address: DatabaseAddress;
  readonly #connectionsMax: number;
  readonly #waitersMax: number;
  readonly #statementTimeoutMs: number;
  readonly #connectTimeoutMs: number;
  #connectLimitMs: number;
  readonly #idle: ServerConnection[] = [];
  readonly #leased = new Set<ServerConnection>();
  readonly #waiters = new Set<Waiter>();
  /** Connections that are being opened or probed. */
  #pending = 0;
  #closed = false;
  readonly #sweeper: NodeJS.Timeout;

  constructor(address: DatabaseAddress, options: DatabaseOptions = {}) {
    this.#address = address;
    this.#connectionsMax = options.connectionsMax ?? connectionsMax;
    this.#waitersMax = options.waitersMax ?? waitersMax;
    this.#statementTimeoutMs = options.statementTimeoutMs ?? statementTimeoutMs;
    this.#connectTimeoutMs = options.connectTimeoutMs ?? connectTimeoutMs;
    this.#connectLimitMs = this.#connectTimeoutMs;
    this.#sweeper = setInterval(() => this.#closeIdle(), sweepMs).unref();
  }

  /** Leases a connection that appears alive; the caller releases it. @throws Failure `unavailable` */
  async acquire(): Promise<ServerConnection> {
    for (let idle = this.#idle.pop(); idle !== undefined && !this.#closed; idle = this.#idle.pop()) {
      if (idle.isClosed) continue;
      if (!idle.isDoubted && idle.idleMs < probeAfterIdleMs) return this.#lease(idle);
      this.#pending++;
      const alive = await idle.isAlive();
      this.#pending--;
      if (alive) return this.#lease(idle);
      this.suspect();
    }
    if (this.#closed) throw closedFailure();
    if (this.#idle.length + this.#leased.size + this.#pending < this.#connectionsMax) return this.#openPooled();
    if (this.#waiters.size >= this.#waitersMax) throw poolExhausted();
    return new Promise((give, fail) => {
      this.#waiters.add({ give, fail });
    });
  }

  /** Releases a connection. Destroy one that cannot be used again before. */
  release(connection: ServerConnection): void {
    this.#leased.delete(connection);
    if (connection.isClosed || this.#closed) {
      connection.destroy();
      this.#serveNext();
      return;
    }
    const [waiter] = this.#waiters;
    if (waiter === undefined) {
      this.#idle.push(connection);
      return;
    }
    this.#waiters.delete(waiter);
    waiter.give(this.#lease(connection));
  }

  /** Opens a connection outside of the pool. @throws Failure `unavailable` */
  async open(options: OpenOptions = {}): Promise<ServerConnection> {
    const startedAt = performance.now();
    const opened = await ServerConnection.open(this.#address, {
      connectTimeoutMs: this.#connectLimitMs,
      statementTimeoutMs: options.statementTimeoutMs ?? this.#statementTimeoutMs,
      multipleStatements: options.multipleStatements ?? false,
    });
    const limitMs = Math.max(reconnectMsMin, (performance.now() - startedAt) * reconnectFactor);
    this.#connectLimitMs = Math.min(this.#connectTimeoutMs, limitMs);
    return opened;
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
    for (const waiter of this.#waiters) waiter.fail(closedFailure());
    this.#waiters.clear();
    for (const connection of this.#leased) connection.destroy();
    await Promise.all(this.#idle.splice(0).map((connection) => connection.end()));
  }

  #lease(connection: ServerConnection): ServerConnection {
    this.#leased.add(connection);
    return connection;
  }

  async #openPooled(): Promise<ServerConnection> {
    this.#pending++;
    let opened: ServerConnection;
    try {
      opened = await this.open();
    } catch (error) {
      this.#pending--;
      if (isUnreachable(error)) this.#failWaiters(error);
      this.#serveNext();
      throw error;
    }
    this.#pending--;
    if (!this.#closed) return this.#lease(opened);
    opened.destroy();
    throw closedFailure();
  }

  /** If no connection is leased, none will be released to the waiting calls. */
  #failWaiters(error: unknown): void {
    if (this.#leased.size > 0) return;
    for (const waiter of this.#waiters) waiter.fail(error);
    this.#waiters.clear();
  }

  /** One more connection is allowed: opens it for the call that has waited longest. */
  #serveNext(): void {
    const [waiter] = this.#waiters;
    if (waiter === undefined || this.#closed) return;
    this.#waiters.delete(waiter);
    this.acquire().then(waiter.give, waiter.fail);
  }

  #closeIdle(): void {
    const kept: ServerConnection[] = [];
    for (const connection of this.#idle.splice(0)) {
      if (connection.isClosed) continue;
      if (connection.idleMs < idleConnectionMs) kept.push(connection);
      else void connection.end();
    }
    this.#idle.push(...kept);
  }
}

function closedFailure(): Failure {
  return unavailable("the database cannot be reached; try again", "DATABASE_UNAVAILABLE", databaseRetryAfterMs);
}

function poolExhausted(): Failure {
  return unavailable(
    "too many requests wait for the database; try again",
    "DATABASE_UNAVAILABLE",
    databaseRetryAfterMs,
  );
}
