import { Failure } from "../domain/failure.js";
import type { ColumnValue, Row } from "./column.js";
import { ConnectionPool } from "./connection-pool.js";
import { isSilence, isUnreachable } from "./database-error.js";
import { DatabaseGate, waitingMax, waitMsMax } from "./database-gate.js";
import { type DatabaseAddress, parseDatabaseUrl } from "./database-url.js";
import {
  type Connection,
  connectionsMax,
  type DatabaseOptions,
  describeAddress,
  type Parameter,
} from "./driver-connection.js";
import { KnownPlace, ReadBehindError } from "./known-place.js";
import type { ServerConnection } from "./server-connection.js";

/** A connection outside of the pool, for repeated reads of several tables in one snapshot. */
export interface SnapshotConnection {
  /** One query. */
  query<R extends { [K in keyof R]: ColumnValue } = Row>(sql: string): Promise<R[]>;
  /**
   * Queries of one snapshot in one round trip; returns the rows of each. They are sent as one text with several
   * statements, so it must not contain external values other than bigints.
   */
  snapshot<Rows extends readonly object[]>(...queries: QueryForEach<Rows>): Promise<RowsOfEach<Rows>>;
}

type QueryForEach<Rows extends readonly object[]> = { readonly [Index in keyof Rows]: string };

type RowsOfEach<Rows extends readonly object[]> = { readonly [Index in keyof Rows]: readonly Rows[Index][] };

/** A pool of connections to one database. Errors that mean "unreachable" are a Failure `unavailable`. */
export interface Database {
  /** For messages to operators: host or socket, and database name; never the password. */
  readonly description: string;
  /** The newest place of the store that this process has read, on any connection. */
  readonly knownPlace: KnownPlace;
  /** Admits requests of clients before they use a connection. */
  readonly gate: DatabaseGate;
  /** One query on any connection. */
  query<R extends { [K in keyof R]: ColumnValue } = Row>(
    sql: string,
    parameters?: readonly (Parameter | readonly Parameter[])[],
  ): Promise<R[]>;
  /** Leases a connection, outside of any transaction, until the promise of `use` settles. */
  withConnection<T>(use: (connection: Connection) => Promise<T>): Promise<T>;
  /** Leases a connection with a consistent read-only snapshot. */
  withSnapshot<T>(use: (connection: Connection) => Promise<T>): Promise<T>;
  /**
   * Lends a connection that is opened for this and closed when the promise of `use` settles. It fails when the server is
   * silent for `statementTimeoutMs` during a statement.
   */
  withSnapshotConnection<T>(
    use: (connection: SnapshotConnection) => Promise<T>,
    statementTimeoutMs?: number,
  ): Promise<T>;
  /** Lends a connection in a transaction, committed when `use` returns and rolled back when it throws. */
  withTransaction<T>(use: (connection: Connection) => Promise<T>): Promise<T>;
  /** A connection to the server, of whatever kind, turned out to be dead: the pool's have to prove that they are not. */
  suspect(): void;
  /** Closes all connections; those that are lent fail. */
  close(): Promise<void>;
}

const beginSnapshot = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";

/** Opens a pool; connections are made when they are needed, so nothing is reached yet. @throws Error for a bad URL */
export function openDatabase(url: string, options: DatabaseOptions = {}): Database {
  return new PooledDatabase(parseDatabaseUrl(url), options);
}

function snapshotConnection({ query }: Connection): SnapshotConnection {
  return {
    query,
    snapshot: async <Rows extends readonly object[]>(...queries: QueryForEach<Rows>) => {
      const outcomes: unknown[] = await query([beginSnapshot, ...queries, "COMMIT"].join(";\n"));
      return outcomes.slice(1, -1) as unknown as RowsOfEach<Rows>;
    },
  };
}

class PooledDatabase implements Database {
  readonly description: string;
  readonly knownPlace = new KnownPlace();
  readonly gate: DatabaseGate;
  readonly #pool: ConnectionPool;
  /** Connections outside of the pool. */
  readonly #others = new Set<ServerConnection>();

  constructor(address: DatabaseAddress, options: DatabaseOptions) {
    this.description = describeAddress(address);
    const slots = options.connectionsMax ?? connectionsMax;
    this.gate = new DatabaseGate({ slots, waitingMax, waitMsMax, ...options.gate });
    this.#pool = new ConnectionPool(address, options);
  }

  query<R extends { [K in keyof R]: ColumnValue } = Row>(
    sql: string,
    parameters?: readonly (Parameter | readonly Parameter[])[],
  ): Promise<R[]> {
    return this.withConnection((connection) => connection.query<R>(sql, parameters));
  }

  async withConnection<T>(use: (connection: Connection) => Promise<T>): Promise<T> {
    const leased = await this.#pool.acquire();
    try {
      return await use(leased.connection);
    } catch (error) {
      if (!isUsableAfter(error)) leased.destroy();
      if (isSilence(error)) this.suspect();
      throw error;
    } finally {
      this.#pool.release(leased);
    }
  }

  withSnapshot<T>(use: (connection: Connection) => Promise<T>): Promise<T> {
    return this.#inTransaction(beginSnapshot, use);
  }

  async withSnapshotConnection<T>(
    use: (connection: SnapshotConnection) => Promise<T>,
    statementTimeoutMs?: number,
  ): Promise<T> {
    const opened = await this.#pool.open({ multipleStatements: true, statementTimeoutMs });
    this.#others.add(opened);
    try {
      return await use(snapshotConnection(opened.connection));
    } finally {
      this.#others.delete(opened);
      opened.destroy();
    }
  }

  withTransaction<T>(use: (connection: Connection) => Promise<T>): Promise<T> {
    return this.#inTransaction("START TRANSACTION", use);
  }

  suspect(): void {
    this.#pool.suspect();
  }

  async close(): Promise<void> {
    for (const connection of this.#others) connection.destroy();
    await this.#pool.close();
  }

  async #inTransaction<T>(begin: string, use: (connection: Connection) => Promise<T>): Promise<T> {
    const leased = await this.#pool.acquire();
    const { connection } = leased;
    let usable = false;
    try {
      await connection.run(begin);
      try {
        const result = await use(connection);
        await connection.run("COMMIT");
        usable = true;
        return result;
      } catch (error) {
        await connection.run("ROLLBACK");
        usable = true;
        throw error;
      }
    } finally {
      // A connection whose transaction could not be ended must not reach the next caller.
      if (!usable) leased.destroy();
      this.#pool.release(leased);
    }
  }
}

/**
 * A server can say goodbye on a connection that still looks alive, or lag, or be in the middle of a statement that was
 * given up: the next caller must not get it.
 */
function isUsableAfter(error: unknown): boolean {
  if (isUnreachable(error) || error instanceof ReadBehindError) return false;
  return !(error instanceof Failure && error.code === "deadline_exceeded");
}
