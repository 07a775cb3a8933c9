import type { ConnectionOptions, SslOptions } from "mysql2/promise";
import { columnValue } from "./column.js";
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
  /** Longest silence of the server during a statement; Infinity: any. */
  readonly statementTimeoutMs?: number;
  readonly queue?: Partial<QueueLimits>;
  /** Called when a client's read fails because the server denies the user what it needs. */
  readonly onDenied?: (error: unknown) => void;
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
 * - MySQL's optimizer turns no subquery with a LIMIT into a join, which fails (9.7), and has memory to plan a range: without
 *   it, a read locks the whole table.
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
    use_secondary_engine = OFF, information_schema_stats_expiry = 0, range_optimizer_max_mem_size = 8388608 */
  /*!80021 , optimizer_switch = 'subquery_to_derived=off' */`;

/** The driver's options for an address. */
export function driverOptions(address: DatabaseAddress): ConnectionOptions {
  return {
    ...(address.socketPath === undefined
      ? { host: address.host, port: address.port }
      : { socketPath: address.socketPath }),
    ...(address.tls === undefined ? {} : { ssl: sslOptions(address.tls) }),
    user: address.user,
    password: address.password,
    database: address.database,
    charset: "utf8mb4",
    supportBigNumbers: true,
    bigNumberStrings: true,
    typeCast: columnValue,
    // A stack for each statement costs more than it tells: errors name the statement's kind, and stacks go to no client.
    trace: false,
    // The limit is the socket's.
    connectTimeout: 0,
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
