import { type Failure, unavailable } from "../domain/failure.js";
import { databaseRetryAfterMs, isUnreachable } from "./database-error.js";
import type { DatabaseAddress } from "./database-url.js";
import { connectionsMax, connectTimeoutMs, type DatabaseOptions, waitersMax } from "./driver-connection.js";
import { ServerConnection } from "./server-connection.js";

/**
 * Longest silence of the server during a statement. Each is bounded in what it reads, and a disk may be slow; a dead peer
 * is mostly found sooner, by the silence of others.
 */
export const statementTimeoutMs = 10_000;

/** A connection that nobody used for so long is closed. */
export const idleConnectionMs = 60_000;

/** A connection that has not answered for so long is asked whether it is alive before it is used. */
export const probeAfterIdleMs = 1_000;

/**
 * Shortest limit for connecting again. The limit is four times what connecting last took, up to `connectTimeoutMs`:
 * attempts that began while the server was away must not outlast its return by much.
 */
export const reconnectMsMin = 1_000;

const reconnectFactor = 4;

const sweepMs = 5_000;

/** What one connection has of its own. */
interface OpenOptions {
  readonly multipleStatements?: boolean;
  /** Undefined: as the pool's. */
  readonly statementTimeoutMs?: number | undefined;
}

/** Somebody who waits for a connection. */
interface Waiter {
  give(connection: ServerConnection): void;
  fail(error: unknown): void;
}

/**
 * Connections to one server address. The one used last is lent first. When one turns out to be dead, none of those that
 * were open then is trusted: the idle ones are closed, and the lent ones must answer soon.
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
  /** Connections being opened or asked. */
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

  /** A connection that is alive, as far as can be told; to be given back. @throws Failure `unavailable` */
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

  /** Takes a connection back. One that cannot be used again is to be destroyed before. */
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

  /** Opens a connection that is not one of the pool's. @throws Failure `unavailable` */
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

  /** A connection to the server turned out to be dead: no other one that is open now is trusted. */
  suspect(): void {
    for (const connection of this.#idle.splice(0)) connection.destroy();
    for (const connection of this.#leased) connection.doubt();
  }

  /** Closes all; those that are lent fail. */
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

  /** Where no connection is lent, nobody could give the waiters one. */
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
