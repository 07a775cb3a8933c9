import type { ColumnValue, Row } from "./connection/column.js";
import type { Connection, ParameterList, ServerConnection } from "./connection/connection.js";
import { ConnectionPool } from "./connection/connection-pool.js";
import { type DatabaseAddress, parseDatabaseUrl } from "./connection/database-url.js";
import { type DatabaseOptions, describeAddress } from "./connection/driver-options.js";
import { type FairQueue, internalRequest } from "./connection/fair-queue.js";
import { type Lease, leaseReader, type Reader } from "./connection/lease.js";
import { KnownPlace } from "./connection/store-place.js";

type QueryForEach<Rows extends readonly object[]> = { readonly [Index in keyof Rows]: string };

type RowsOfEach<Rows extends readonly object[]> = { readonly [Index in keyof Rows]: readonly Rows[Index][] };

const beginSnapshot = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";

/**
 * The rows of each query, in one snapshot and one round trip, on a connection of {@link Database.withOwnConnection}. They
 * are sent as one text with several statements, so it must not contain external values other than bigints.
 */
export async function readInSnapshot<Rows extends readonly object[]>(
  connection: Connection,
  ...queries: QueryForEach<Rows>
): Promise<RowsOfEach<Rows>> {
  const outcomes: unknown[] = await connection.query([beginSnapshot, ...queries, "COMMIT"].join(";\n"));
  return outcomes.slice(1, -1) as unknown as RowsOfEach<Rows>;
}

/** A pool of connections to one database. Errors that mean "unreachable" are a Failure `unavailable`. */
export class Database {
  /** For messages to operators: host or socket, and database name; never the password. */
  readonly description: string;
  /** The newest place of the store that this process has read, on any connection. */
  readonly knownPlace = new KnownPlace();
  /** Who uses a connection next. */
  readonly queue: FairQueue;
  readonly #pool: ConnectionPool;
  /** Connections outside of the pool. */
  readonly #others = new Set<ServerConnection>();

  constructor(address: DatabaseAddress, options: DatabaseOptions) {
    this.description = describeAddress(address);
    this.#pool = new ConnectionPool(address, options);
    this.queue = this.#pool.queue;
  }

  /** Leases a connection for reads on behalf of a client's call, as {@link leaseReader} says. */
  lease<T>(lease: Lease, use: (reader: Reader) => Promise<T>): Promise<T> {
    return leaseReader(this.#pool, this.knownPlace, lease, use);
  }

  /** One query on any connection. */
  query<R extends { [K in keyof R]: ColumnValue } = Row>(sql: string, parameters?: ParameterList): Promise<R[]> {
    return this.withConnection((connection) => connection.query<R>(sql, parameters));
  }

  /** Lends a connection, outside of any transaction, until the promise of `use` settles. */
  withConnection<T>(use: (connection: Connection) => Promise<T>): Promise<T> {
    return this.#pool.run(internalRequest, use);
  }

  /** Lends a connection with a consistent read-only snapshot. */
  withSnapshot<T>(use: (connection: Connection) => Promise<T>): Promise<T> {
    return this.#inTransaction(beginSnapshot, use);
  }

  /** Lends a connection in a transaction, committed when `use` returns and rolled back when it throws. */
  withTransaction<T>(use: (connection: Connection) => Promise<T>): Promise<T> {
    return this.#inTransaction("START TRANSACTION", use);
  }

  /**
   * Lends a connection that is opened for this and closed when the promise of `use` settles. It fails when the server is
   * silent for `statementTimeoutMs` during a statement.
   */
  async withOwnConnection<T>(use: (connection: Connection) => Promise<T>, statementTimeoutMs?: number): Promise<T> {
    const limit = statementTimeoutMs === undefined ? {} : { statementTimeoutMs };
    const opened = await this.#pool.open({ multipleStatements: true, ...limit });
    this.#others.add(opened);
    try {
      return await use(opened);
    } finally {
      this.#others.delete(opened);
      opened.destroy();
    }
  }

  /** A connection to the server, of whatever kind, turned out to be dead: the pool's have to prove that they are not. */
  suspect(): void {
    this.#pool.suspect();
  }

  /** Closes all connections; those that are lent fail. */
  async close(): Promise<void> {
    for (const connection of this.#others) connection.destroy();
    await this.#pool.close();
  }

  #inTransaction<T>(begin: string, use: (connection: Connection) => Promise<T>): Promise<T> {
    return this.#pool.run(internalRequest, async (connection) => {
      try {
        await connection.run(begin);
        const result = await use(connection);
        await connection.run("COMMIT");
        return result;
      } catch (error) {
        // A connection whose transaction cannot be ended must not reach the next caller.
        await connection.run("ROLLBACK").catch(() => connection.destroy());
        throw error;
      }
    });
  }
}

/** Opens a pool; connections are made when they are needed, so nothing is reached yet. @throws Error for a bad URL */
export function openDatabase(url: string, options: DatabaseOptions = {}): Database {
  return new Database(parseDatabaseUrl(url), options);
}
