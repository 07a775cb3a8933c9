import type { Connection as DriverConnection, PoolOptions, ResultSetHeader, SslOptions } from "mysql2/promise";
import { type ColumnValue, columnValue, type Row } from "./column.js";
import { toDatabaseFailure } from "./database-error.js";
import type { GateLimits } from "./database-gate.js";
import type { DatabaseAddress } from "./database-url.js";
import type { TlsSettings } from "./tls-settings.js";

/** Connections a pool opens at most. */
export const connectionsMax = 10;

/** Callers that may wait for a connection; more of them are UNAVAILABLE at once. */
export const waitersMax = 10_000;

/** How long connecting may take. */
export const connectTimeoutMs = 5_000;

/** A connection that nobody used for so long is closed. */
export const idleConnectionMs = 60_000;

/** How a {@link Database} behaves. */
export interface DatabaseOptions {
  readonly connectionsMax?: number;
  readonly waitersMax?: number;
  readonly connectTimeoutMs?: number;
  /** Longest silence of the server during a statement; Infinity: any. */
  readonly statementTimeoutMs?: number;
  readonly gate?: Partial<GateLimits>;
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
  readonly driver: DriverConnection;
}

/**
 * What every session is set to, whatever the server's defaults: strict, so that a value that does not fit is an error
 * and not a shorter value; UTC; and repeatable reads, so that a snapshot stays one.
 */
export const sessionSettings = [
  "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO', time_zone = '+00:00'",
  "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
] as const;

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
    // A stack for each statement costs more than it tells: errors name the statement's kind, and stacks go to no client.
    trace: false,
    flags: ["-LOCAL_FILES"],
    connectTimeout: options.connectTimeoutMs ?? connectTimeoutMs,
    enableKeepAlive: true,
    connectionLimit: options.connectionsMax ?? connectionsMax,
    queueLimit: options.waitersMax ?? waitersMax,
  };
}

function sslOptions({ authorities, verifiesCertificate, verifiesName }: TlsSettings): SslOptions {
  return {
    ...(authorities === undefined ? {} : { ca: authorities }),
    rejectUnauthorized: verifiesCertificate,
    verifyIdentity: verifiesName,
  };
}

/** The name under which messages speak of a database. */
export function describeAddress(address: DatabaseAddress): string {
  return `${address.database} at ${address.socketPath ?? `${address.host}:${address.port}`}`;
}

/**
 * Wraps a connection of the driver. `watch` gets each statement under way, and gives what becomes of it; by default
 * there is no limit to its time.
 */
export function wrapConnection(
  driver: DriverConnection,
  watch: <T>(statement: Promise<T>) => Promise<T> = (statement) => statement,
): Connection {
  const ask = async <R>(request: () => Promise<readonly [unknown, ...unknown[]]>): Promise<R> => {
    try {
      const [response] = await watch(request());
      return response as R;
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
