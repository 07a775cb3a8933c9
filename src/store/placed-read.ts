import { setTimeout as sleep } from "node:timers/promises";
import { unavailable } from "../domain/failure.js";
import { type QueryOwner, withBoundedConnection } from "./bounded-query.js";
import { asText, type ColumnValue, type Row } from "./column.js";
import type { Database } from "./database.js";
import { databaseErrorCode, databaseRetryAfterMs } from "./database-error.js";
import type { Connection, Parameter } from "./driver-connection.js";
import { ReadBehindError, reaches, type StorePlace } from "./known-place.js";

/** How long a read searches for a server that has its block. Healthy replicas lag less. */
export const behindWaitMsMax = 1_500;

/** How long a read waits for missing tables: a database is dropped table by table. */
export const missingWaitMsMax = 200;

/** Pauses between attempts: doubled from the first to the second value. */
const behindPauseMsMin = 10;
const behindPauseMsMax = 100;

/** The place of the newest block as one SQL value, for {@link parsePlace}. */
export const placeSql = asText(
  "(SELECT CONCAT_WS(' ', stream_sequence, height, block_time_ns, store_id) FROM progress WHERE id = 1)",
);

/** A place, and its block. */
export interface BlockPlace extends StorePlace {
  readonly height: bigint;
  readonly timeNs: bigint;
}

/** Parses the value of {@link placeSql}; undefined: nothing was loaded. */
export function parsePlace(text: string | null): BlockPlace | undefined {
  if (text === null) return undefined;
  const [streamSequence = "", height = "", timeNs = "", ...storeId] = text.split(" ");
  return {
    storeId: storeId.join(" "),
    streamSequence: BigInt(streamSequence),
    height: BigInt(height),
    timeNs: BigInt(timeNs),
  };
}

/**
 * A connection whose reads depend on a place. A statement with the condition `holds` proves that the place is there:
 * its rows come from the same snapshot. After a last statement without rows, or without the condition, call {@link
 * prove}.
 */
export class PlacedConnection {
  readonly #connection: Connection;
  #place: StorePlace | undefined;
  #holds = "TRUE";
  #proven = true;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** An SQL condition that is true if the place is there. */
  get holds(): string {
    return this.#holds;
  }

  /** From now on, reads depend on this place. */
  dependOn(place: StorePlace, proven = false): void {
    const name = Buffer.from(place.storeId, "latin1").toString("hex");
    this.#place = place;
    this.#proven = proven;
    this.#holds = `(SELECT 1 FROM progress WHERE id = 1 AND store_id = x'${name}'
      AND stream_sequence >= ${place.streamSequence})`;
  }

  async query<R extends { [K in keyof R]: ColumnValue } = Row>(
    sql: string,
    parameters?: readonly (Parameter | readonly Parameter[])[],
  ): Promise<R[]> {
    const rows = await this.#connection.query<R>(sql, parameters);
    this.#proven = rows.length > 0 && sql.includes(this.#holds);
    return rows;
  }

  /** Call it after the last read: if the place is there now, it was there all the time. @throws ReadBehindError */
  async prove(): Promise<void> {
    const needed = this.#place;
    if (needed === undefined || this.#proven) return;
    const [row] = await this.#connection.query<{ readonly place: string | null }>(`SELECT ${placeSql} AS place`);
    const found = parsePlace(row?.place ?? null);
    if (found === undefined || !reaches(found, needed)) throw new ReadBehindError("the server lost its place");
  }
}

/**
 * Leases a connection for reads that depend on a place, like {@link withBoundedConnection}. If the place is not there,
 * the connection is closed, and `use` runs again on another one.
 * @throws Failure `unavailable`, also if no server with the place was found in time, or tables are missing
 */
export async function withPlacedConnection<T>(
  database: Database,
  owner: QueryOwner,
  timeoutMs: number,
  use: (connection: PlacedConnection) => Promise<T>,
): Promise<T> {
  const startedAt = performance.now();
  let pauseMs = behindPauseMsMin;
  for (let attempt = 1; ; attempt++) {
    try {
      // A read that was admitted once is not refused on a retry.
      const further = owner.further === true || attempt > 1;
      return await withBoundedConnection(database, { call: owner.call, further }, timeoutMs, async (connection) => {
        const placed = new PlacedConnection(connection);
        const result = await use(placed);
        await placed.prove();
        return result;
      });
    } catch (error) {
      const waitedMs = performance.now() - startedAt + pauseMs;
      if (storeIsMissing.has(databaseErrorCode(error) ?? "")) {
        if (waitedMs > missingWaitMsMax) throw await toMissingFailure(database, error);
      } else if (!(error instanceof ReadBehindError)) throw error;
      else if (attempt === error.attemptsMax || waitedMs > behindWaitMsMax) throw behind(error);
    }
    await pause(pauseMs, owner);
    pauseMs = Math.min(2 * pauseMs, behindPauseMsMax);
  }
}

/** An abort ends the pause; the next attempt reports it. */
async function pause(ms: number, { call }: QueryOwner): Promise<void> {
  await sleep(ms, undefined, call === undefined ? {} : { signal: call.signal }).catch(() => {});
}

function behind(cause: unknown): unknown {
  const message = "the database does not hold the block that this response depends on yet; try again";
  return unavailable(message, "DATABASE_BEHIND", databaseRetryAfterMs, cause);
}

/** The database, a table or a column of this program is missing, or tables were recreated during a read. */
const storeIsMissing: ReadonlySet<string> = new Set([
  "ER_BAD_DB_ERROR",
  "ER_NO_SUCH_TABLE",
  "ER_BAD_FIELD_ERROR",
  "ER_TABLE_DEF_CHANGED",
  "ER_NO_SUCH_TABLE_IN_ENGINE",
]);

/** If the store exists after all, waiting does not help, and the error must be reported. */
async function toMissingFailure(database: Database, error: unknown): Promise<unknown> {
  const known = database.knownPlace.current;
  const rows = await database
    .query<{ readonly place: string | null }>(`SELECT ${placeSql} AS place`)
    .catch(() => undefined);
  const found = parsePlace(rows?.[0]?.place ?? null);
  if (found !== undefined && (known === undefined || reaches(found, known))) return error;
  return unavailable("the database holds nothing right now; try again", "NOT_READY", databaseRetryAfterMs, error);
}
