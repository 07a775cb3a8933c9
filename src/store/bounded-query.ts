import { Failure } from "../domain/failure.js";
import type { Call } from "../domain/service.js";
import type { Database } from "./database.js";
import type { Connection } from "./driver-connection.js";

/** The longest time for the queries of one page or one batch of an export, once they have a connection. */
export const ledgerQueryTimeoutMs = 20_000;

/** The call on whose behalf the queries run. */
export interface QueryOwner {
  /** Undefined: the service's own queries. */
  readonly call: Call | undefined;
  /** The call has started to respond; see {@link DatabaseGate.run}. */
  readonly further?: boolean;
}

/**
 * Lends a connection for the queries of a call, after admission by the database's gate. If the call is aborted, its
 * caller learns at once. The current statement runs to its end, no other one starts, and the connection is reused:
 * reconnecting costs more than any bounded statement. Queries that take longer than `timeoutMs` lose their connection.
 * @throws Failure of the gate, `cancelled` or `deadline_exceeded`, and whatever the queries throw
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

/** The result of the queries; after `timeoutMs` a failure, and the connection is closed. */
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

/** The same connection, on which no statement starts once the signal is aborted. */
function untilAborted(connection: Connection, signal: AbortSignal | undefined): Connection {
  if (signal === undefined) return connection;
  const used = (): Connection => {
    if (signal.aborted) throw new Failure("cancelled", "the request was cancelled", { reason: "CANCELLED" });
    return connection;
  };
  return {
    driver: connection.driver,
    query: (sql, parameters) => used().query(sql, parameters),
    run: (sql, parameters) => used().run(sql, parameters),
  };
}

function timedOut(timeoutMs: number): Failure {
  return new Failure("deadline_exceeded", `the database took longer than ${timeoutMs} ms; ask for a smaller page`, {
    reason: "QUERY_TIMEOUT",
  });
}
