import type { ColumnValue, Row } from "./column.js";
import { ConnectionPool } from "./connection-pool.js";
import { type DatabaseAddress, parseDatabaseUrl } from "./database-url.js";
import { type Connection, type DatabaseOptions, describeAddress, type Parameter } from "./driver-connection.js";
import type { FairQueue } from "./fair-queue.js";
import { type Lease, leaseReader, type Reader } from "./lease.js";
import type { ServerConnection } from "./server-connection.js";
import { KnownPlace } from "./store-place.js";

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
  /** Who uses a connection next. */
  readonly queue: FairQueue;
  /** Leases a connection for reads on behalf of a client's call, as {@link leaseReader} says. */
  lease<T>(lease: Lease, use: (reader: Reader) => Promise<T>): Promise<T>;
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

/** The slots of the process's own statements. */
const internal = { class: "internal", call: undefined } as const;

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
  readonly queue: FairQueue;
  readonly #pool: ConnectionPool;
  /** Connections outside of the pool. */
  readonly #others = new Set<ServerConnection>();

  constructor(address: DatabaseAddress, options: DatabaseOptions) {
    this.description = describeAddress(address);
    this.#pool = new ConnectionPool(address, options);
    this.queue = this.#pool.queue;
  }

  lease<T>(lease: Lease, use: (reader: Reader) => Promise<T>): Promise<T> {
    return leaseReader(this.#pool, this.knownPlace, lease, use);
  }

  query<R extends { [K in keyof R]: ColumnValue } = Row>(
    sql: string,
    parameters?: readonly (Parameter | readonly Parameter[])[],
  ): Promise<R[]> {
    return this.withConnection((connection) => connection.query<R>(sql, parameters));
  }

  withConnection<T>(use: (connection: Connection) => Promise<T>): Promise<T> {
    return this.#pool.run(internal, ({ connection }) => use(connection));
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

  #inTransaction<T>(begin: string, use: (connection: Connection) => Promise<T>): Promise<T> {
    return this.#pool.run(internal, async (leased) => {
      const { connection } = leased;
      try {
        await connection.run(begin);
        const result = await use(connection);
        await connection.run("COMMIT");
        return result;
      } catch (error) {
        // A connection whose transaction cannot be ended must not reach the next caller.
        await connection.run("ROLLBACK").catch(() => leased.destroy());
        throw error;
      }
    });
  }
}
