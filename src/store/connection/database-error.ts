import { Failure, unavailable } from "../../domain/failure.js";

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
 * cluster; 3032: offline, as a node that was expelled from its group; 1203, 1226: the user has as many connections, or as
 * many statements an hour, as it may).
 */
const unreachableNumbers: ReadonlySet<number> = new Set([1047, 1203, 1226, 1927, 2002, 2003, 2006, 2013, 3032, 4031]);

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

/** The server knows the database and does not let this user in, or at it: locked, renamed, or without its rights. */
const deniedNumbers: ReadonlySet<number> = new Set([1044, 1045, 1130, 1142, 1143, 1698, 3118, 4151]);

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
  return "fatal" in error && error.fatal === true;
}

/** Whether this server takes no writes, though another one behind the same address may. */
export function isWriteRefused(error: unknown): boolean {
  return writeRefusedNumbers.has(databaseErrorNumber(error) ?? 0);
}

/** Whether an operator has to give the user its rights, or the service its password. */
export function isDenied(error: unknown): boolean {
  return deniedNumbers.has(databaseErrorNumber(error) ?? 0);
}

/**
 * The error that the store throws for an error of the driver. If the database is unreachable, UNAVAILABLE with reason
 * `DATABASE_UNAVAILABLE` and the cause; otherwise the error itself.
 */
export function toDatabaseFailure(error: unknown): unknown {
  return error instanceof Failure || !isUnreachable(error) ? error : databaseAway(error);
}

/** The database cannot be reached, or used. */
export function databaseAway(cause?: unknown): Failure {
  return unavailable("the database cannot be reached; try again", "DATABASE_UNAVAILABLE", databaseRetryAfterMs, cause);
}

/** Whether a connection was closed because the server was silent. */
export function isSilence(error: unknown): boolean {
  return databaseErrorCode(error instanceof Failure ? error.cause : error) === "ETIMEDOUT";
}

/** The server holds less than what was committed: it is a replica or a cluster node that lags. */
export class ServerBehindError extends Error {
  readonly committed: bigint;
  /** Undefined: nothing was loaded. */
  readonly found: bigint | undefined;

  constructor(committed: bigint, found: bigint | undefined) {
    super(`this server is at event ${found ?? "none"}, before event ${committed}, which was committed`);
    this.name = "ServerBehindError";
    this.committed = committed;
    this.found = found;
  }
}

/** The maximum length of a server's message that is shown to operators, in characters. */
const messageLengthMax = 300;

/**
 * Error numbers that pass without any change on our side, of both servers, a Galera cluster and Group Replication.
 * Denied access and missing tables are not included.
 */
const passingNumbers: ReadonlySet<number> = new Set([
  // The disk is full, or a file cannot be written.
  ...[3, 1021, 1026, 1030, 1114],
  // A lock of another session, a deadlock, a certification conflict.
  ...[1020, 1205, 1213, 1689, 3058, 3572],
  // The commit failed, as when a cluster's nodes disagree.
  ...[1180, 3101],
  // A new primary, or another node of its group, took too long to apply what was committed before.
  ...[3797, 3798],
  // A read-only transaction, by the server's default.
  1792,
  // The statement was interrupted, or took too long.
  ...[1317, 1969, 3024],
  // Packets between us and the server were lost.
  ...[1158, 1159, 1160, 1161],
]);

/** Whether a retry may succeed: the database is unreachable, locked, full or read-only for now. */
export function isPassing(error: unknown): boolean {
  if (error instanceof ServerBehindError) return true;
  return isUnreachable(error) || isWriteRefused(error) || passingNumbers.has(databaseErrorNumber(error) ?? 0);
}

const nobodyThereCodes: ReadonlySet<string> = new Set(["ECONNREFUSED", "ENOENT", "ENOTFOUND", "EAI_AGAIN"]);

/** Whether nothing listens at the database's address, or the address does not exist. */
export function isNobodyThere(error: unknown): boolean {
  const cause = error instanceof Failure ? error.cause : error;
  return nobodyThereCodes.has(databaseErrorCode(cause) ?? "");
}

/** One line for operators about a database error; undefined for any other error. */
export function databaseProblem(error: unknown): string | undefined {
  if (error instanceof ServerBehindError) return error.message;
  if (isUnreachable(error))
    return `the database cannot be reached${reasonOf(error instanceof Failure ? error.cause : error)}`;
  if (!(error instanceof Error) || !("sqlState" in error)) return undefined;
  const code = databaseErrorCode(error) ?? databaseErrorNumber(error);
  if (/ACCESS_?DENIED/.test(`${code}`)) return `the database refuses its user: ${oneLine(error.message)}`;
  return `the database refused a statement: ${oneLine(error.message)} (${code})`;
}

function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return "";
  // The driver's error for a connection that broke just before. The previous error had the reason.
  if (/closed state/.test(cause.message)) return ": the connection was lost";
  // If a name has several addresses, the combined error has no message.
  const reason = cause.message === "" ? databaseErrorCode(cause) : cause.message;
  return reason === undefined ? "" : `: ${oneLine(reason)}`;
}

function oneLine(text: string): string {
  const line = text.replace(/\s+/g, " ");
  return line.length > messageLengthMax ? `${line.slice(0, messageLengthMax)}…` : line;
}
