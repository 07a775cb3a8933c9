import { setTimeout as sleep } from "node:timers/promises";
import { MalformedHistoryError } from "../../domain/book-history.js";
import { Failure, unavailable } from "../../domain/failure.js";
import type { Call } from "../../domain/service.js";
import type { ColumnValue, Row } from "./column.js";
import type { Connection, ParameterList, ServerConnection } from "./connection.js";
import type { ConnectionPool } from "./connection-pool.js";
import { databaseAway, databaseErrorCode, databaseRetryAfterMs, isDenied } from "./database-error.js";
import { abortFailure, internalRequest, type WorkClass } from "./fair-queue.js";
import {
  type BlockPlace,
  type KnownPlace,
  placeSql,
  ReadBehindError,
  reaches,
  readPlace,
  type StorePlace,
} from "./store-place.js";

/** The longest time for the statements of one page or one batch of an export, once they have a connection. */
export const leaseTimeoutMs = 20_000;

/** How long a read searches for a server that has its block. Healthy replicas lag less. */
export const behindWaitMsMax = 1_500;

/** How long a read waits for missing tables: a database is dropped table by table. */
export const missingWaitMsMax = 200;

/** Pauses between attempts: doubled from the first to the second value. */
const behindPauseMsMin = 10;
const behindPauseMsMax = 100;

/** What a connection is leased for. */
export interface Lease {
  readonly class: WorkClass;
  /** The call on whose behalf it reads. Undefined: the process itself. */
  readonly call: Call | undefined;
  /** The longest time for its statements. Default: {@link leaseTimeoutMs}. */
  readonly timeoutMs?: number;
  /**
   * What earlier reads of the same response depended on, and this one does. The call has started to respond, so the
   * lease goes before others of its client, and is never refused.
   */
  readonly place?: StorePlace | undefined;
}

/**
 * Reads for a call that depend on a place. A statement that tells its place, or has the condition `holds` and gives
 * rows, proves that the place is there: all of its rows come from the same snapshot. Before any other statement, one of
 * these must have proven it.
 */
export class Reader {
  readonly #connection: Connection;
  readonly #known: KnownPlace;
  readonly #knownBefore: StorePlace | undefined;
  readonly #signal: AbortSignal | undefined;
  #place: StorePlace | undefined;
  #holds = "TRUE";
  #isProven = false;
  /** An earlier statement found the place: this connection's server has it from then on. */
  #wasProven = false;

  constructor(connection: Connection, known: KnownPlace, { call, place }: Lease) {
    this.#connection = connection;
    this.#known = known;
    this.#knownBefore = known.current;
    this.#signal = call?.signal;
    if (place !== undefined) this.#dependOn(place);
  }

  /** An SQL condition that is true if the place is there. */
  get holds(): string {
    return this.#holds;
  }

  /** @throws Failure, the signal's reason, once the call is aborted */
  async query<R extends { [K in keyof R]: ColumnValue } = Row>(sql: string, parameters?: ParameterList): Promise<R[]> {
    this.#checkWanted();
    const hasCondition = sql.includes(this.#holds);
    // Its rows do not say whether the server had the place when it read them.
    if (!hasCondition && !sql.includes(placeSql)) await this.#proveOnce();
    const rows = await this.#connection.query<R>(sql, parameters);
    this.#isProven = rows.length > 0 && hasCondition;
    this.#wasProven ||= this.#isProven;
    if (rows.length > 0 || this.#place === undefined || this.#wasProven || !hasCondition) return rows;
    // The place may have come after the statement, which then has no rows for want of it.
    await this.#proveOnce();
    return this.query(sql, parameters);
  }

  /**
   * Notes the place that the last statement told; undefined: the store is empty. The first one is what all further
   * reads depend on.
   * @throws ReadBehindError if the server lacks what this response, or this process before it, has read
   */
  found(place: BlockPlace | undefined): void {
    if (this.#place === undefined) this.#known.found(place, this.#knownBefore);
    else if (place === undefined || !reaches(place, this.#place)) throw lostPlace();
    if (place === undefined) return;
    if (this.#place === undefined) this.#dependOn(place);
    this.#isProven = true;
    this.#wasProven = true;
  }

  /**
   * Call it after the last read. The place was there before each read; if it is there now, the store was not replaced
   * meanwhile.
   * @throws ReadBehindError
   */
  async prove(): Promise<void> {
    if (this.#place === undefined || this.#isProven) return;
    this.#checkWanted();
    const found = await readPlace(this.#connection);
    if (found === undefined || !reaches(found, this.#place)) throw lostPlace();
  }

  async #proveOnce(): Promise<void> {
    if (this.#place === undefined || this.#wasProven) return;
    await this.prove();
    this.#wasProven = true;
  }

  #checkWanted(): void {
    if (this.#signal?.aborted === true) throw abortFailure(this.#signal);
  }

  #dependOn(place: StorePlace): void {
    const name = Buffer.from(place.storeId, "latin1").toString("hex");
    this.#place = place;
    this.#holds = `(SELECT 1 FROM progress WHERE id = 1 AND store_id = x'${name}'
      AND stream_sequence >= ${place.streamSequence})`;
  }
}

/**
 * Leases a connection to `use`, in turn with other clients. If the call is aborted, its caller learns at once. The
 * current statement runs to its end, no other one starts, and the connection is reused: reconnecting costs more than any
 * bounded statement. Statements that take longer than `timeoutMs` lose their connection. If the place of the reads is
 * not there, the connection is closed, and `use` runs again on another one.
 * @throws Failure of the queue, of the call's signal, `deadline_exceeded`, `unavailable` also if no server with the
 * place was found in time or tables are missing, and whatever `use` throws
 */
export async function leaseReader<T>(
  pool: ConnectionPool,
  known: KnownPlace,
  lease: Lease,
  use: (reader: Reader) => Promise<T>,
): Promise<T> {
  const { class: workClass, call, place } = lease;
  let startedAt: number | undefined;
  let pauseMs = behindPauseMsMin;
  for (let attempt = 1; ; attempt++) {
    // A read that was admitted once is not refused on a retry.
    const slot = { class: workClass, call, started: place !== undefined || attempt > 1 };
    try {
      return await pool.run(slot, (leased) => {
        startedAt ??= performance.now();
        const reader = new Reader(leased, known, lease);
        const statements = use(reader).then(
          async (result) => {
            await reader.prove();
            return result;
          },
          async (thrown: unknown) => {
            // Rows of two stores do not fit together.
            if (thrown instanceof MalformedHistoryError) await reader.prove();
            throw thrown;
          },
        );
        return inTime(leased, statements, lease.timeoutMs);
      });
    } catch (error) {
      const nowMs = performance.now();
      const waitedMs = nowMs - (startedAt ?? nowMs) + pauseMs;
      if (!mayPass(error, attempt, waitedMs)) throw await toFailure(pool, known.current, error);
    }
    // An abort ends the pause; the next attempt reports it.
    await sleep(pauseMs, undefined, { signal: call?.signal }).catch(() => {});
    pauseMs = Math.min(2 * pauseMs, behindPauseMsMax);
  }
}

/** The result of the statements; after `timeoutMs` a failure, and the connection is closed. */
async function inTime<T>(leased: ServerConnection, statements: Promise<T>, timeoutMs = leaseTimeoutMs): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      leased.destroy();
      reject(timedOut(timeoutMs));
    }, timeoutMs);
  });
  try {
    return await Promise.race([statements, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

function timedOut(timeoutMs: number): Failure {
  return new Failure("deadline_exceeded", `the database took longer than ${timeoutMs} ms; ask for a smaller page`, {
    reason: "QUERY_TIMEOUT",
  });
}

function lostPlace(): ReadBehindError {
  return new ReadBehindError("the server lost its place");
}

/** The database, a table or a column of this program is missing, or tables were recreated during a read. */
const storeIsMissing: ReadonlySet<string> = new Set([
  "ER_BAD_DB_ERROR",
  "ER_NO_SUCH_TABLE",
  "ER_BAD_FIELD_ERROR",
  "ER_TABLE_DEF_CHANGED",
  "ER_NO_SUCH_TABLE_IN_ENGINE",
]);

/** A lock of another session ended the read, as MySQL's on tables that are being dropped. */
const lockedCodes: ReadonlySet<string> = new Set(["ER_LOCK_DEADLOCK", "ER_LOCK_WAIT_TIMEOUT"]);

function isLocked(error: unknown): boolean {
  return lockedCodes.has(databaseErrorCode(error) ?? "");
}

function isStoreMissing(error: unknown): boolean {
  return storeIsMissing.has(databaseErrorCode(error) ?? "");
}

/** Whether another attempt, on another connection or a little later, may do better. */
function mayPass(error: unknown, attempt: number, waitedMs: number): boolean {
  if (error instanceof ReadBehindError) return attempt !== error.attemptsMax && waitedMs <= behindWaitMsMax;
  return (isStoreMissing(error) || isLocked(error)) && waitedMs <= missingWaitMsMax;
}

/** What the call is told. If the store exists after all, waiting does not help, and the error must be reported. */
async function toFailure(pool: ConnectionPool, known: StorePlace | undefined, error: unknown): Promise<unknown> {
  if (error instanceof ReadBehindError) {
    const message = "the database does not hold the block that this response depends on yet; try again";
    return unavailable(message, "DATABASE_BEHIND", databaseRetryAfterMs, error);
  }
  if (isDenied(error)) {
    pool.onDenied(error);
    return unavailable("the database cannot be used; try again", "DATABASE_UNAVAILABLE", databaseRetryAfterMs, error);
  }
  if (isLocked(error)) return databaseAway(error);
  if (!isStoreMissing(error)) return error;
  const found = await pool.run(internalRequest, readPlace).catch(() => undefined);
  if (found !== undefined && (known === undefined || reaches(found, known))) return error;
  return unavailable("the database holds nothing right now; try again", "NOT_READY", databaseRetryAfterMs, error);
}
