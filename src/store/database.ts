import {
  createPool,
  type Pool,
  type PoolConnection,
  type PoolOptions,
  type ResultSetHeader,
  type SslOptions,
} from "mysql2/promise";
import { type ColumnValue, columnValue, type Row } from "./column.js";
import { isUnreachable, toDatabaseFailure, unanswered } from "./database-error.js";
import { type DatabaseAddress, type DatabaseTls, parseDatabaseUrl } from "./database-url.js";
import { KnownPlace, ReadBehindError } from "./known-place.js";

/** Connections a pool opens at most. */
export const connectionsMax = 10;

/** Callers that may wait for a connection; more of them are UNAVAILABLE at once. */
export const waitersMax = 10_000;

/** How long connecting may take. */
export const connectTimeoutMs = 5_000;

/** How long a statement may take before its connection is given up: a dead peer never answers. */
export const statementTimeoutMs = 10_000;

/** The longest limit that Node's timers keep. */
const timerMsMax = 2 ** 31 - 1;

/** A connection that nobody used for so long is closed. */
export const idleConnectionMs = 60_000;

/** How a {@link Database} behaves. */
export interface DatabaseOptions {
  readonly connectionsMax?: number;
  readonly waitersMax?: number;
  readonly connectTimeoutMs?: number;
  /** Infinity: none. */
  readonly statementTimeoutMs?: number;
}

/** Values for the `?` of a statement. A bigint is compared as a number, which text of digits is not. */
export type Parameter = bigint | number | string | boolean | Uint8Array | null;

/** What a statement that is not a query did. */
export interface Outcome {
  readonly affectedRows: number;
  readonly warnings: number;
  /** The server's note (`Records: 3  Duplicates: 0 …`), or empty. */
  readonly info: string;
}

/** One connection, held for a while. Values are those of column.ts. */
export interface Connection {
  /** A query with `?`, of which an array becomes a list: `IN (?)`. Values are escaped by the driver: one round trip. */
  query<R extends { [K in keyof R]: ColumnValue } = Row>(
    sql: string,
    parameters?: readonly (Parameter | readonly Parameter[])[],
  ): Promise<R[]>;
  /** A prepared query; the statement is kept by the connection, so the text must come from a small set. */
  execute<R extends { [K in keyof R]: ColumnValue } = Row>(
    sql: string,
    parameters?: readonly Parameter[],
  ): Promise<R[]>;
  /** A statement that changes something. */
  run(sql: string, parameters?: readonly (Parameter | readonly Parameter[])[]): Promise<Outcome>;
  /** The driver's connection, for what only it can do (streams of rows). Only the store may touch it. */
  readonly driver: PoolConnection;
}

/** A connection outside of the pool, for reading several tables as of one moment, again and again. */
export interface SnapshotConnection {
  /** One query. */
  query<R extends { [K in keyof R]: ColumnValue } = Row>(sql: string): Promise<R[]>;
  /**
   * Queries that all see the same committed state, in one round trip; gives the rows of each. They go in one text, which
   * the server takes for several statements, so it must hold nothing that came from outside, but for bigints.
   */
  snapshot<Rows extends readonly object[]>(...queries: QueryForEach<Rows>): Promise<RowsOfEach<Rows>>;
}

type QueryForEach<Rows extends readonly object[]> = { readonly [Index in keyof Rows]: string };

type RowsOfEach<Rows extends readonly object[]> = { readonly [Index in keyof Rows]: readonly Rows[Index][] };

/** A pool of connections to one database. Every error that means "cannot be reached" is a Failure `unavailable`. */
export interface Database {
  /** For messages to operators: host or socket, and the name of the database; never the password. */
  readonly description: string;
  /** What this process has read of the store, by any connection. */
  readonly knownPlace: KnownPlace;
  /** One query on any connection. */
  query<R extends { [K in keyof R]: ColumnValue } = Row>(
    sql: string,
    parameters?: readonly (Parameter | readonly Parameter[])[],
  ): Promise<R[]>;
  /** One prepared query on any connection. */
  execute<R extends { [K in keyof R]: ColumnValue } = Row>(
    sql: string,
    parameters?: readonly Parameter[],
  ): Promise<R[]>;
  /** Lends a connection, outside of any transaction, until the promise of `use` settles. */
  withConnection<T>(use: (connection: Connection) => Promise<T>): Promise<T>;
  /** Lends a connection on which all queries see the same committed state and nothing can be written. */
  withSnapshot<T>(use: (connection: Connection) => Promise<T>): Promise<T>;
  /** Lends a connection that is opened for this and closed when the promise of `use` settles. */
  withSnapshotConnection<T>(use: (connection: SnapshotConnection) => Promise<T>): Promise<T>;
  /** Lends a connection in a transaction, committed when `use` returns and rolled back when it throws. */
  withTransaction<T>(use: (connection: Connection) => Promise<T>): Promise<T>;
  /** Closes all connections; those that are lent fail. */
  close(): Promise<void>;
}

/**
 * What every session is set to, whatever the server's defaults: strict, so that a value that does not fit is an error
 * and not a shorter value; UTC; and repeatable reads, so that a snapshot stays one.
 */
export const sessionSettings = [
  "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO', time_zone = '+00:00'",
  "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
] as const;

const beginSnapshot = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";

/** The driver's options for an address. Several statements in one text are refused, and so is LOAD DATA LOCAL. */
export function driverOptions(address: DatabaseAddress, options: DatabaseOptions = {}): PoolOptions {
  return {
    ...(address.socketPath === undefined
      ? { host: address.host, port: address.port }
      : { socketPath: address.socketPath }),
    ...(address.tls === undefined ? {} : { ssl: sslOptions(address.tls) }),
    user: address.user,
    password: address.password,
    database: address.database,
    charset: "utf8mb4",
    timezone: "Z",
    multipleStatements: false,
    supportBigNumbers: true,
    bigNumberStrings: true,
    typeCast: columnValue,
    flags: ["-LOCAL_FILES"],
    connectTimeout: options.connectTimeoutMs ?? connectTimeoutMs,
    enableKeepAlive: true,
    connectionLimit: options.connectionsMax ?? connectionsMax,
    maxIdle: options.connectionsMax ?? connectionsMax,
    idleTimeout: idleConnectionMs,
    queueLimit: options.waitersMax ?? waitersMax,
  };
}

function sslOptions({ authorities, verifiesCertificate, verifiesName }: DatabaseTls): SslOptions {
  return {
    ...(authorities === undefined ? {} : { ca: authorities }),
    rejectUnauthorized: verifiesCertificate,
    verifyIdentity: verifiesName,
  };
}

/** Opens a pool; connections are made when they are needed, so nothing is reached yet. @throws Error for a bad URL */
export function openDatabase(url: string, options: DatabaseOptions = {}): Database {
  return new PooledDatabase(parseDatabaseUrl(url), options);
}

/** The name under which messages speak of a database. */
export function describeAddress(address: DatabaseAddress): string {
  return `${address.database} at ${address.socketPath ?? `${address.host}:${address.port}`}`;
}

/**
 * Wraps a connection of the driver. A statement that takes longer than `timeoutMs` is a Failure `unavailable`, and the
 * connection is destroyed: nobody can tell what it would still say. By default there is no limit.
 */
export function wrapConnection(driver: PoolConnection, timeoutMs = Number.POSITIVE_INFINITY): Connection {
  const ask = async <R>(request: () => Promise<readonly [unknown, ...unknown[]]>): Promise<R> => {
    try {
      const [answer] = await answered(driver, request(), timeoutMs);
      return answer as R;
    } catch (error) {
      throw toDatabaseFailure(error);
    }
  };
  return {
    driver,
    query: (sql, parameters = []) => ask(() => driver.query(sql, [...parameters])),
    execute: (sql, parameters = []) => ask(() => driver.execute(sql, [...parameters])),
    run: async (sql, parameters = []) => {
      const result = await ask<Pick<ResultSetHeader, "affectedRows" | "warningStatus" | "info">>(() =>
        driver.query(sql, [...parameters]),
      );
      return { affectedRows: result.affectedRows, warnings: result.warningStatus, info: result.info };
    },
  };
}

/** Settles as the statement does, or fails after `timeoutMs`, and the connection with it. */
function answered<T>(driver: PoolConnection, statement: Promise<T>, timeoutMs: number): Promise<T> {
  if (timeoutMs > timerMsMax) return statement;
  return new Promise<T>((resolve, reject) => {
    let settled = false;
    const giveUp = () => {
      if (settled) return;
      driver.destroy();
      reject(unanswered());
    };
    // An event loop that was late itself may have the answer waiting: it is read before the verdict.
    const timer = setTimeout(() => setImmediate(giveUp), timeoutMs);
    const settle = () => {
      settled = true;
      clearTimeout(timer);
    };
    statement.then(resolve, reject);
    statement.then(settle, settle);
  });
}

function snapshotConnection(driver: PoolConnection): SnapshotConnection {
  const { query } = wrapConnection(driver);
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
  readonly #pool: Pool;
  /** The only connections that take several statements in one text. */
  readonly #snapshotPool: Pool;
  readonly #settled = new WeakSet<object>();
  readonly #statementTimeoutMs: number;

  constructor(address: DatabaseAddress, options: DatabaseOptions) {
    this.description = describeAddress(address);
    this.#statementTimeoutMs = options.statementTimeoutMs ?? statementTimeoutMs;
    this.#pool = createPool(driverOptions(address, options));
    this.#snapshotPool = createPool({ ...driverOptions(address, options), multipleStatements: true });
  }

  query<R extends { [K in keyof R]: ColumnValue } = Row>(
    sql: string,
    parameters?: readonly (Parameter | readonly Parameter[])[],
  ): Promise<R[]> {
    return this.withConnection((connection) => connection.query<R>(sql, parameters));
  }

  execute<R extends { [K in keyof R]: ColumnValue } = Row>(
    sql: string,
    parameters?: readonly Parameter[],
  ): Promise<R[]> {
    return this.withConnection((connection) => connection.execute<R>(sql, parameters));
  }

  async withConnection<T>(use: (connection: Connection) => Promise<T>): Promise<T> {
    const driver = await this.#acquire(this.#pool);
    let usable = true;
    try {
      return await use(wrapConnection(driver, this.#statementTimeoutMs));
    } catch (error) {
      // A server can say goodbye on a connection that still looks alive, or lag: the next caller must not get it.
      usable = !isUnreachable(error) && !(error instanceof ReadBehindError);
      throw error;
    } finally {
      if (usable) driver.release();
      else driver.destroy();
    }
  }

  withSnapshot<T>(use: (connection: Connection) => Promise<T>): Promise<T> {
    return this.#inTransaction(beginSnapshot, use);
  }

  async withSnapshotConnection<T>(use: (connection: SnapshotConnection) => Promise<T>): Promise<T> {
    const driver = await this.#acquire(this.#snapshotPool);
    try {
      return await use(snapshotConnection(driver));
    } finally {
      driver.destroy();
    }
  }

  withTransaction<T>(use: (connection: Connection) => Promise<T>): Promise<T> {
    return this.#inTransaction("START TRANSACTION", use);
  }

  async close(): Promise<void> {
    await Promise.all([this.#pool.end(), this.#snapshotPool.end()]);
  }

  async #acquire(pool: Pool): Promise<PoolConnection> {
    let driver: PoolConnection;
    try {
      driver = await pool.getConnection();
    } catch (error) {
      throw toDatabaseFailure(error);
    }
    if (this.#settled.has(driver.connection)) return driver;
    try {
      const connection = wrapConnection(driver, this.#statementTimeoutMs);
      for (const setting of sessionSettings) await connection.run(setting);
    } catch (error) {
      driver.destroy();
      throw error;
    }
    this.#settled.add(driver.connection);
    return driver;
  }

  async #inTransaction<T>(begin: string, use: (connection: Connection) => Promise<T>): Promise<T> {
    const driver = await this.#acquire(this.#pool);
    let usable = false;
    try {
      const connection = wrapConnection(driver, this.#statementTimeoutMs);
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
      if (usable) driver.release();
      else driver.destroy();
    }
  }
}
