import { Failure } from "../domain/failure.js";
import type { Call } from "../domain/service.js";
import type { Connection, Database } from "./database.js";

/** How long the queries of one page or one batch of an export may take together, once they have a connection. */
export const ledgerQueryTimeoutMs = 20_000;

/** Whose queries they are. */
export interface QueryOwner {
  /** Undefined: the service's own. */
  readonly call: Call | undefined;
  /** The call has started to respond; see {@link DatabaseGate.run}. */
  readonly further?: boolean;
}

/**
 * Lends a connection for queries of a call, once the database's gate lets it through. When the call is aborted, its
 * caller knows at once; the statement under way ends in its own time, no further one begins, and the connection is used
 * again, because connecting anew costs more than any statement that is bounded in what it reads. Queries that take longer
 * than `timeoutMs` lose their connection.
 * @throws Failure of the gate, `cancelled` or `deadline_exceeded`, beside what the queries throw
 */
export function withBoundedConnection<T>(
  database: Database,
  { call, further = false }: QueryOwner,
  timeoutMs: number,
  use: (connection: Connection) => Promise<T>,
): Promise<T> {
  const work = (): Promise<T> =>
    database.withConnection((connection) => inTime(connection, timeoutMs, use(untilAborted(connection, call?.signal))));
  return database.gate.run(call, work, further);
}

/** The outcome of queries, or a failure and a connection less after `timeoutMs`. */
function inTime<T>(connection: Connection, timeoutMs: number, queries: Promise<T>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => {
      connection.driver.destroy();
      reject(timedOut(timeoutMs));
    }, timeoutMs);
    queries.then(
      (value) => {
        clearTimeout(timer);
        resolve(value);
      },
      (error: unknown) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}

/** The same connection, on which no statement begins once the signal is aborted. */
function untilAborted(connection: Connection, signal: AbortSignal | undefined): Connection {
  if (signal === undefined) return connection;
  const used = (): Connection => {
    if (signal.aborted) throw new Failure("cancelled", "the request was cancelled", { reason: "CANCELLED" });
    return connection;
  };
  return {
    driver: connection.driver,
    query: (sql, parameters) => used().query(sql, parameters),
    execute: (sql, parameters) => used().execute(sql, parameters),
    run: (sql, parameters) => used().run(sql, parameters),
  };
}

function timedOut(timeoutMs: number): Failure {
  return new Failure("deadline_exceeded", `the database took longer than ${timeoutMs} ms; ask for a smaller page`, {
    reason: "QUERY_TIMEOUT",
  });
}
