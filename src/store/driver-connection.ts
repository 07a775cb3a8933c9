import type { Connection as DriverConnection, PoolOptions, ResultSetHeader, SslOptions } from "mysql2/promise";
import { type Columns, type ColumnValue, checkColumns, columnValue, type Row } from "./column.js";
import { toDatabaseFailure } from "./database-error.js";
import type { DatabaseAddress } from "./database-url.js";
import type { QueueLimits } from "./fair-queue.js";
import type { TlsSettings } from "./tls-settings.js";

/** Connections a pool opens at most. */
export const connectionsMax = 10;

/** How long connecting may take. */
export const connectTimeoutMs = 5_000;

/** How a {@link Database} behaves. */
export interface DatabaseOptions {
  readonly connectionsMax?: number;
  readonly connectTimeoutMs?: number;
  /** Longest silence of the server during a statement; Infinity: any. */
  readonly statementTimeoutMs?: number;
  readonly queue?: Partial<QueueLimits>;
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
  /** A statement that changes something. */
  run(sql: string, parameters?: readonly (Parameter | readonly Parameter[])[]): Promise<Outcome>;
  /** The driver's connection, for what only it can do (streams of rows). Only the store may touch it. */
  readonly driver: DriverConnection;
}

/** Bytes that GROUP_CONCAT gives at most; servers cut longer text with a warning that nobody reads. */
export const groupConcatBytesMax = 4 * 1024 * 1024;

/** The highest number that these settings take: no limit. */
const unlimited = 2n ** 64n - 1n;

/**
 * What every session is set to, in one statement: all that changes rows, types or transactions, so that neither the
 * server's own settings nor its `init_connect` decide it. Any user may set these. More may be appended.
 *
 * - Autocommit goes off and on, which ends a transaction that `init_connect` began. A connection that its user leaves
 *   idle stays open; reads are repeatable, so that a snapshot stays one.
 * - A value that does not fit is an error and not a shorter value. Times are UTC.
 * - Results keep the character sets of their columns (`checkColumns` in column.ts).
 * - No limit cuts a result, a text or a sort key.
 *
 * MariaDB executes `M!` comments, MySQL 8 and later those that begin with `!80000`; each ignores the other's.
 */
export const sessionSettings = `SET SESSION autocommit = 0, autocommit = 1, completion_type = 0, unique_checks = 1,
    wait_timeout = 28800, time_zone = '+00:00',
    sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO',
    character_set_client = utf8mb4, collation_connection = utf8mb4_bin, character_set_results = NULL,
    sql_select_limit = ${unlimited}, max_join_size = ${unlimited}, sql_big_selects = 1, sql_safe_updates = 0,
    sql_auto_is_null = 0, sql_buffer_result = 0, group_concat_max_len = ${groupConcatBytesMax}, max_sort_length = 1024
  /*M!100300 , tx_isolation = 'REPEATABLE-READ', tx_read_only = 0, max_statement_time = 0, old_mode = '',
    sql_if_exists = 0, idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0,
    idle_write_transaction_timeout = 0 */
  /*M!101108 , innodb_snapshot_isolation = 0 */
  /*!80000 , transaction_isolation = 'REPEATABLE-READ', transaction_read_only = 0, max_execution_time = 0,
    use_secondary_engine = OFF */`;

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
  const ask = async <R>(request: () => Promise<[unknown, Columns]>): Promise<R> => {
    try {
      const [response, columns] = await watch(request());
      checkColumns(columns);
      return response as R;
    } catch (error) {
      throw toDatabaseFailure(error);
    }
  };
  return {
    driver,
    query: (sql, parameters = []) => ask(() => driver.query(sql, [...parameters])),
    run: async (sql, parameters = []) => {
      const result = await ask<Pick<ResultSetHeader, "affectedRows" | "warningStatus" | "info">>(() =>
        driver.query(sql, [...parameters]),
      );
      return { affectedRows: result.affectedRows, warnings: result.warningStatus, info: result.info };
    },
  };
}
