import { Failure } from "../domain/failure.js";
import type { Connection, Database } from "./database.js";

/** How long the queries of one page or one stretch of an export may take together. */
export const ledgerQueryTimeoutMs = 20_000;

/**
 * Lends a connection for queries that are given up when `signal` aborts or after `timeoutMs`. A query that is given up
 * loses its connection; the server may work on it a little longer, for every statement here is bounded in what it
 * reads, and none needs to be killed.
 * @throws Failure `cancelled` or `deadline_exceeded`, beside what the queries throw
 */
export function withBoundedConnection<T>(
  database: Database,
  signal: AbortSignal | undefined,
  timeoutMs: number,
  use: (connection: Connection) => Promise<T>,
): Promise<T> {
  return database.withConnection((connection) => {
    if (signal?.aborted === true) throw aborted(signal);
    return new Promise<T>((resolve, reject) => {
      const giveUp = (failure: Error) => {
        settle();
        connection.driver.destroy();
        reject(failure);
      };
      const onAbort = () => giveUp(aborted(signal));
      const timer = setTimeout(() => giveUp(timedOut(timeoutMs)), timeoutMs);
      const settle = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      use(connection).then(
        (value) => {
          settle();
          resolve(value);
        },
        (error: unknown) => {
          settle();
          reject(error);
        },
      );
    });
  });
}

function aborted(signal: AbortSignal | undefined): Error {
  if (signal?.reason instanceof Failure) return signal.reason;
  return new Failure("cancelled", "the request was cancelled", { reason: "CANCELLED" });
}

function timedOut(timeoutMs: number): Failure {
  return new Failure("deadline_exceeded", `the database took longer than ${timeoutMs} ms; ask for a smaller page`, {
    reason: "QUERY_TIMEOUT",
  });
}
