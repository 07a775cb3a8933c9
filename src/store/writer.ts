import type { Socket } from "node:net";
import { createPool, type PoolConnection } from "mysql2/promise";
import { ConnectionProbe } from "./connection-probe.js";
import { isUnreachable, isWriteRefused, toDatabaseFailure } from "./database-error.js";
import { type DatabaseAddress, parseDatabaseUrl } from "./database-url.js";
import {
  type Connection,
  connectTimeoutMs,
  driverOptions,
  sessionSettings,
  wrapConnection,
} from "./driver-connection.js";
import { openSocket, silentPeerError } from "./driver-socket.js";
import { ServerBehindError } from "./progress-table.js";

/**
 * The longest silence of the connection within a transaction, in milliseconds, in both directions. A statement of any
 * length may take its time while it is being sent.
 */
export const writerSilenceMsMax = 30_000;

/**
 * The shortest time limit for reconnecting, in milliseconds. The limit is four times the duration of the last connect,
 * up to `connectTimeoutMs`. Attempts that began while the server was away must not delay its return.
 */
export const reconnectMsMin = 1_500;

const reconnectFactor = 4;

/** The longest wait for another session's lock, in seconds; then the loader retries. */
export const lockWaitSeconds = 5;

/**
 * The server ends a transaction in which the loader is silent for this many seconds, so that a loader that hangs or
 * disappeared does not block the next one. MySQL has no such limit; there the connection ends.
 */
export const idleTransactionSeconds = 10;

/** MySQL's limit for an idle connection, in seconds. The loader reconnects when it has something to write. */
export const idleConnectionSeconds = 30;

/** MariaDB only: the longest time of one statement at the server, in seconds. A full disk can block one forever. */
export const serverStatementSeconds = 300;

const writerSettings = `${sessionSettings}
  , innodb_lock_wait_timeout = ${lockWaitSeconds}, lock_wait_timeout = ${lockWaitSeconds}
  /*M!100300 , idle_transaction_timeout = ${idleTransactionSeconds}, max_statement_time = ${serverStatementSeconds} */
  /*!80000 , wait_timeout = ${idleConnectionSeconds} */`;

/** The loader's own connection, the only one that may use LOAD DATA LOCAL. It is reopened after a loss. */
export interface Writer {
  /** The connection, outside of a transaction. @throws Failure `unavailable` if the database cannot be reached */
  connection(): Promise<Connection>;
  /**
   * Runs `write` in a transaction. If it fails because the connection was lost, the transaction may still have been
   * committed.
   * @throws Failure `unavailable` if the database cannot be reached, or is silent for `writerSilenceMsMax`
   */
  transaction<T>(write: (connection: Connection) => Promise<T>): Promise<T>;
  /** From now on, a silence of `silenceMsMax` ends a transaction. */
  hurry(silenceMsMax: number): void;
  /** Closes the connection at once; the current transaction and all later ones fail. */
  close(): void;
}

/** Connects. @throws Failure `unavailable` if the database cannot be reached */
export async function openWriter(url: string): Promise<Writer> {
  const writer = new ReconnectingWriter(parseDatabaseUrl(url));
  await writer.connection();
  return writer;
}

/** A connection to the server, and its socket. */
interface Session {
  readonly connection: Connection;
  readonly socket: Socket;
  readonly probe: ConnectionProbe;
}

class ReconnectingWriter implements Writer {
  readonly #address: DatabaseAddress;
  #session: Session | undefined;
  #connectMsMax = connectTimeoutMs;
  #silenceMsMax = writerSilenceMsMax;
  #closed = new AbortController();

  constructor(address: DatabaseAddress) {
    this.#address = address;
  }

  async connection(): Promise<Connection> {
    return (await this.#connected()).connection;
  }

  async transaction<T>(write: (connection: Connection) => Promise<T>): Promise<T> {
    const session = await this.#connected();
    const { connection, socket, probe } = session;
    socket.setTimeout(this.#silenceMsMax);
    probe.start();
    try {
      await connection.run("START TRANSACTION");
      const result = await write(connection);
      await connection.run("COMMIT");
      return result;
    } catch (error) {
      // The next attempt may reach a server that is not behind, or the new primary.
      if (isUnreachable(error) || isWriteRefused(error) || error instanceof ServerBehindError) socket.destroy();
      else await connection.run("ROLLBACK").catch(() => socket.destroy());
      throw error;
    } finally {
      probe.stop();
      socket.setTimeout(0);
    }
  }

  hurry(silenceMsMax: number): void {
    this.#silenceMsMax = silenceMsMax;
    const socket = this.#session?.socket;
    if (socket?.timeout) socket.setTimeout(silenceMsMax);
  }

  close(): void {
    this.#closed.abort();
    this.#session?.socket.destroy();
  }

  async #connected(): Promise<Session> {
    if (this.#session?.socket.destroyed === false) return this.#session;
    const startedAt = performance.now();
    const session = await openSession(this.#address, this.#connectMsMax, this.#closed.signal);
    const tookMs = performance.now() - startedAt;
    this.#connectMsMax = Math.min(connectTimeoutMs, Math.max(reconnectMsMin, tookMs * reconnectFactor));
    this.#session = session;
    return session;
  }
}

async function openSession(address: DatabaseAddress, timeoutMs: number, closed: AbortSignal): Promise<Session> {
  const socket = openSocket(address);
  const abort = () => socket.destroy(silentPeerError("the loader was stopped"));
  socket.on("timeout", () => socket.destroy(silentPeerError(`no response for ${(socket.timeout ?? 0) / 1_000} s`)));
  closed.addEventListener("abort", abort, { once: true });
  const pool = createPool({
    ...driverOptions(address, { connectionsMax: 1, connectTimeoutMs: timeoutMs }),
    flags: ["LOCAL_FILES"],
    stream: () => socket,
  });
  try {
    if (closed.aborted) abort();
    const driver: PoolConnection = await pool.getConnection();
    // If the connection breaks while nobody waits, the next transaction notices.
    driver.connection.on("error", () => {});
    socket.once("close", () => driver.destroy());
    socket.setTimeout(timeoutMs);
    await driver.query(writerSettings);
    socket.setTimeout(0);
    const connection = wrapConnection(driver);
    return { connection, socket, probe: await ConnectionProbe.of(connection, socket, address) };
  } catch (error) {
    socket.destroy();
    throw toDatabaseFailure(error);
  } finally {
    closed.removeEventListener("abort", abort);
  }
}
