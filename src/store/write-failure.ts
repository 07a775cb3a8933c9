import { Failure } from "../domain/failure.js";
import { databaseErrorCode, databaseErrorNumber, isUnreachable, isWriteRefused } from "./database-error.js";
import { ServerBehindError } from "./progress-table.js";

/** The maximum length of a server's message that is shown to operators, in characters. */
const messageLengthMax = 300;

/**
 * Error numbers that pass without any change on our side, of both servers, a Galera cluster and Group Replication.
 * Denied access and missing tables are not included.
 */
const passingNumbers: ReadonlySet<number> = new Set([
  3,
  1021,
  1026,
  1030,
  1114, // the disk is full, or a file cannot be written
  1020,
  1205,
  1213,
  1689,
  3058,
  3572, // a lock of another session, a deadlock, a certification conflict
  1180,
  3101, // the commit failed, as when a cluster's nodes disagree
  3797,
  3798, // a new primary, or another node of its group, took too long to apply what was committed before
  1792, // a read-only transaction, by the server's default
  1203,
  1226, // too many connections of this user
  1317,
  1969,
  3024, // the statement was interrupted, or took too long
  1158,
  1159,
  1160,
  1161, // packets between us and the server were lost
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
