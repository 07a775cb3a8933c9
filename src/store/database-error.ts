import { Failure, unavailable } from "../domain/failure.js";

/** Retry delay for clients while the database is unreachable. */
export const databaseRetryAfterMs = 1_000;

/** Error codes of the system, the driver and the servers that mean: the database is unreachable now. */
const unreachableCodes: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "ECONNABORTED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOENT",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EPIPE",
  "ETIMEDOUT",
  "PROTOCOL_CONNECTION_LOST",
  "PROTOCOL_SEQUENCE_TIMEOUT",
  "HANDSHAKE_NO_SSL_SUPPORT",
  "ER_CON_COUNT_ERROR",
  "ER_SERVER_SHUTDOWN",
  "ER_NORMAL_SHUTDOWN",
  "ER_SHUTDOWN_COMPLETE",
  "ER_SERVER_GONE_ERROR",
  "ER_SERVER_LOST",
  "ER_CLIENT_INTERACTION_TIMEOUT",
  "ER_LOCK_ABORTED",
  // MySQL reports a statement as interrupted when its connection is killed or the server shuts down.
  "ER_QUERY_INTERRUPTED",
]);

/**
 * The same by number, for codes without a name in the driver (1927: connection killed, MariaDB; 1047: not yet in its
 * cluster; 3032: offline, as a node that was expelled from its group).
 */
const unreachableNumbers: ReadonlySet<number> = new Set([1047, 1927, 2002, 2003, 2006, 2013, 3032, 4031]);

/**
 * A server that takes no writes: read-only (1290, 1836), or a node that its group no longer lets commit (3100). After a
 * fail-over it may stay so, while a new connection leads to the new primary.
 */
const writeRefusedNumbers: ReadonlySet<number> = new Set([1290, 1836, 3100]);

/** Refusals that end the connection and that waiting does not change. */
const refusedCodes: ReadonlySet<string> = new Set([
  "ER_ACCESS_DENIED_ERROR",
  "ER_DBACCESS_DENIED_ERROR",
  "ER_BAD_DB_ERROR",
  "ER_NOT_SUPPORTED_AUTH_MODE",
  "AUTH_SWITCH_PLUGIN_ERROR",
]);

/** The driver's own errors, which have no code. */
const poolRefusal = /^(Queue limit reached|Pool is closed|No connections available)/;

/** The error code of the driver (`ER_DUP_ENTRY`, `ECONNREFUSED`), or undefined. */
export function databaseErrorCode(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

/** The server's error number, or undefined. */
export function databaseErrorNumber(error: unknown): number | undefined {
  if (typeof error !== "object" || error === null || !("errno" in error)) return undefined;
  return typeof error.errno === "number" ? error.errno : undefined;
}

/** Whether an error means that the database is unreachable, so that a retry may succeed. */
export function isUnreachable(error: unknown): boolean {
  if (error instanceof Failure) return error.reason === "DATABASE_UNAVAILABLE";
  const code = databaseErrorCode(error);
  if (code !== undefined && refusedCodes.has(code)) return false;
  if (code !== undefined && unreachableCodes.has(code)) return true;
  const number = databaseErrorNumber(error);
  if (number !== undefined && unreachableNumbers.has(number)) return true;
  if (!(error instanceof Error)) return false;
  return ("fatal" in error && error.fatal === true) || poolRefusal.test(error.message);
}

/** Whether this server takes no writes, though another one behind the same address may. */
export function isWriteRefused(error: unknown): boolean {
  return writeRefusedNumbers.has(databaseErrorNumber(error) ?? 0);
}

/**
 * The error that the store throws for an error of the driver. If the database is unreachable, UNAVAILABLE with reason
 * `DATABASE_UNAVAILABLE` and the cause; otherwise the error itself.
 */
export function toDatabaseFailure(error: unknown): unknown {
  if (error instanceof Failure || !isUnreachable(error)) return error;
  return unavailable("the database cannot be reached; try again", "DATABASE_UNAVAILABLE", databaseRetryAfterMs, error);
}

/** Whether a connection was closed because the server was silent. */
export function isSilence(error: unknown): boolean {
  return databaseErrorCode(error instanceof Failure ? error.cause : error) === "ETIMEDOUT";
}
