import { type Connection, Connector, type ServerConnection, silentPeerError } from "./connection/connection.js";
import { ConnectionProbe } from "./connection/connection-probe.js";
import { isUnreachable, isWriteRefused, ServerBehindError } from "./connection/database-error.js";
import { type DatabaseAddress, parseDatabaseUrl } from "./connection/database-url.js";
import { connectTimeoutMs, sessionSettings } from "./connection/driver-options.js";

/**
 * The longest silence of the connection within a transaction, in milliseconds, in both directions. A statement of any
 * length may take its time while it is being sent.
 */
export const writerSilenceMsMax = 30_000;

/** The shortest time limit for reconnecting, in milliseconds. */
export const reconnectMsMin = 1_500;

/** The longest wait for another session's lock, in seconds; then the loader retries. */
export const lockWaitSeconds = 5;

/**
 * The server ends a transaction in which the loader is silent for this many seconds, so that a loader that hangs or
 * disappeared does not block the next one. MySQL has no such limit; there the connection ends.
 */
export const idleTransactionSeconds = 10;

/** MySQL's limit for an idle connection, in seconds. The loader reconnects when it has something to write. */
export const idleConnectionSeconds = 30;

/**
 * The server ends a session that does not send the rest of what it has started, such as the rows of a LOAD DATA, once nothing
 * has arrived for twice this many seconds. It counts as working meanwhile, so that nothing else tells that its connection
 * has died: over a slow network rows arrive long after they left the loader.
 */
export const restOfStatementSeconds = 1;

/** MariaDB only: the longest time of one statement at the server, in seconds. A full disk can block one forever. */
export const serverStatementSeconds = 300;

const writerSettings = `${sessionSettings}
  , net_read_timeout = ${restOfStatementSeconds}
  , innodb_lock_wait_timeout = ${lockWaitSeconds}, lock_wait_timeout = ${lockWaitSeconds}
  /*M!100300 , idle_transaction_timeout = ${idleTransactionSeconds}, max_statement_time = ${serverStatementSeconds} */
  /*!80000 , wait_timeout = ${idleConnectionSeconds} */`;

interface Session {
  readonly server: ServerConnection;
  readonly probe: ConnectionProbe;
}

/** The loader's own connection, the only one that may use LOAD DATA LOCAL. It is reopened after a loss. */
export class Writer {
  readonly #address: DatabaseAddress;
  readonly #connector: Connector;
  /** The newest connection, from when it is open; a session once it is probed too. */
  #server: ServerConnection | undefined;
  #session: Session | undefined;
  #silenceMsMax = writerSilenceMsMax;
  readonly #closed = new AbortController();

  constructor(address: DatabaseAddress) {
    this.#address = address;
    this.#connector = new Connector(address, reconnectMsMin);
  }

  /** The connection, outside of a transaction. @throws Failure `unavailable` if the database cannot be reached */
  async connection(): Promise<Connection> {
    return (await this.#connected()).server;
  }

  /**
   * Runs `write` in a transaction. If it fails because the connection was lost, the transaction may still have been
   * committed.
   * @throws Failure `unavailable` if the database cannot be reached, or is silent for `writerSilenceMsMax`
   */
  async transaction<T>(write: (connection: Connection) => Promise<T>): Promise<T> {
    const { server, probe } = await this.#connected();
    const { socket } = server;
    socket.setTimeout(this.#silenceMsMax);
    probe.start();
    try {
      await server.run("START TRANSACTION");
      const result = await write(server);
      await server.run("COMMIT");
      return result;
    } catch (error) {
      // The next attempt may reach a server that is not behind, or the new primary.
      if (isUnreachable(error) || isWriteRefused(error) || error instanceof ServerBehindError) socket.destroy();
      else await server.run("ROLLBACK").catch(() => socket.destroy());
      throw error;
    } finally {
      probe.stop();
      socket.setTimeout(0);
    }
  }

  /** From now on, a silence of `silenceMsMax` ends a transaction. */
  hurry(silenceMsMax: number): void {
    this.#silenceMsMax = silenceMsMax;
    const socket = this.#server?.socket;
    if (socket?.timeout) socket.setTimeout(silenceMsMax);
  }

  /** Closes the connection at once; the current transaction and all later ones fail. */
  close(): void {
    this.#closed.abort();
    this.#server?.destroy();
  }

  async #connected(): Promise<Session> {
    if (this.#session?.server.isClosed === false) return this.#session;
    const server = await this.#connector.open({
      // The limit of a transaction is that of its socket: see below.
      statementTimeoutMs: Number.POSITIVE_INFINITY,
      localInfile: true,
      multipleStatements: true,
      settings: writerSettings,
      signal: this.#closed.signal,
    });
    this.#server = server;
    const { socket } = server;
    socket.on("timeout", () => socket.destroy(silentPeerError(`no response for ${(socket.timeout ?? 0) / 1_000} s`)));
    try {
      socket.setTimeout(connectTimeoutMs);
      this.#session = { server, probe: await ConnectionProbe.of(server, this.#address) };
      socket.setTimeout(0);
      return this.#session;
    } catch (error) {
      server.destroy();
      throw error;
    }
  }
}

/** Connects. @throws Failure `unavailable` if the database cannot be reached */
export async function openWriter(url: string): Promise<Writer> {
  const writer = new Writer(parseDatabaseUrl(url));
  await writer.connection();
  return writer;
}
