import type { Socket } from "node:net";
import { createPool, type PoolConnection } from "mysql2/promise";
import { ConnectionProbe } from "./connection-probe.js";
import { type Connection, connectTimeoutMs, driverOptions, sessionSettings, wrapConnection } from "./database.js";
import { isUnreachable, toDatabaseFailure } from "./database-error.js";
import { type DatabaseAddress, parseDatabaseUrl } from "./database-url.js";
import { openSocket, silentPeerError } from "./driver-socket.js";
import { ServerBehindError } from "./progress-table.js";

/**
 * Longest silence of the connection within a transaction, in milliseconds: no byte goes either way. A statement of any
 * length may take its time as long as it is being sent.
 */
export const writerSilenceMsMax = 30_000;

/**
 * Shortest time limit for connecting again, in milliseconds. The limit is four times what the last connection took, up
 * to `connectTimeoutMs`: attempts that began while the server was away must not outlast its return by much.
 */
export const reconnectMsMin = 1_500;

const reconnectFactor = 4;

/** Longest wait for a lock of another session, in seconds; the loader tries again. */
export const lockWaitSeconds = 5;

/**
 * After so many seconds the server ends a transaction in which the loader says nothing, so that a loader that hangs, or
 * whose machine is gone, does not block the next one. MySQL has no such limit: there the connection ends.
 */
export const idleTransactionSeconds = 10;

/** MySQL's limit for an idle connection, in seconds. The loader connects again when it has something to write. */
export const idleConnectionSeconds = 30;

/** MariaDB only: longest time of one statement at the server, in seconds. A full disk can make one wait for ever. */
export const serverStatementSeconds = 300;

/** MariaDB reads `M!` comments, MySQL 8 those that begin with `!80000`; each takes the other's for a comment. */
const writerSettings = `SET SESSION innodb_lock_wait_timeout = ${lockWaitSeconds}, lock_wait_timeout = ${lockWaitSeconds}
  /*M!100300 , idle_transaction_timeout = ${idleTransactionSeconds}, max_statement_time = ${serverStatementSeconds} */
  /*!80000 , wait_timeout = ${idleConnectionSeconds} */`;

/** The loader's own connection: the only one that may LOAD DATA LOCAL. It is made anew after it was lost. */
export interface Writer {
  /** The connection, outside of a transaction. @throws Failure `unavailable` when the database cannot be reached */
  connection(): Promise<Connection>;
  /**
   * Runs `write` in a transaction: all of it is committed, or nothing. When it fails because the connection was lost,
   * the transaction may have been committed all the same.
   * @throws Failure `unavailable` when the database cannot be reached, or is silent for `writerSilenceMsMax`
   */
  transaction<T>(write: (connection: Connection) => Promise<T>): Promise<T>;
  /** From now on a silence of `silenceMsMax` is enough to give a transaction up. */
  hurry(silenceMsMax: number): void;
  /** Ends the connection at once; a transaction under way fails, and so does every later one. */
  close(): void;
}

/** Connects. @throws Failure `unavailable` when the database cannot be reached */
export async function openWriter(url: string): Promise<Writer> {
  const writer = new ReconnectingWriter(parseDatabaseUrl(url));
  await writer.connection();
  return writer;
}

/** One connection to the server, and the socket below it. */
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
      // The next attempt may reach a server that is not behind.
      if (isUnreachable(error) || error instanceof ServerBehindError) socket.destroy();
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
    // What breaks while nobody waits for a response is noticed by the next transaction.
    driver.connection.on("error", () => {});
    socket.once("close", () => driver.destroy());
    socket.setTimeout(timeoutMs);
    for (const setting of [...sessionSettings, writerSettings]) await driver.query(setting);
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
