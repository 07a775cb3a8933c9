import { setTimeout as sleep } from "node:timers/promises";
import { firstIdOfBlock } from "../domain/block-position.js";
import type { Connection } from "../store/connection/connection.js";
import type { Database } from "../store/database.js";
import { moveOldestKept, type OldestKept, readOldestKept } from "../store/ledger-entry-table.js";
import { lockProgress } from "../store/progress-table.js";

/**
 * Entries that one transaction drops: some 50 ms of the server's time, four indexes included, so that nobody waits long
 * for what it holds.
 */
export const entriesPerDelete = 2_000;

/** Pause after each, as a multiple of what it took: the server has the other half of the time for readers. */
const pauseFactor = 1;

/** Shortest pause, in milliseconds. */
const pauseMsMin = 5;

/** How {@link retain} goes. */
export interface RetainOptions {
  /** Entries of blocks younger than this stay: nanoseconds before the newest block's time. */
  readonly keepNs: bigint;
  readonly signal?: AbortSignal;
  readonly onProgress?: (droppedEntries: number) => void;
  /** Default: {@link entriesPerDelete}. */
  readonly entriesPerDelete?: number;
}

/** What was dropped. */
export interface RetainSummary {
  /** Undefined: nothing was loaded. */
  readonly oldest: OldestKept | undefined;
  readonly entries: number;
}

/**
 * Drops the entries of old blocks while readers and the loader go on. First it says in the database which block is the
 * oldest that is kept; from then on readers read no further back. One that is interrupted is finished by the next.
 */
export async function retain(database: Database, options: RetainOptions): Promise<RetainSummary> {
  const oldest = await database.withTransaction((connection) => moveTo(connection, options.keepNs));
  if (oldest === undefined) return { oldest, entries: 0 };
  return database.withConnection(async (connection) => {
    const end = firstIdOfBlock(oldest.height);
    const [first] = await connection.query<{ id: bigint | null }>("SELECT MIN(id) AS id FROM ledger_entry");
    let entries = 0;
    // Where the last one ended, and not the first row: what is deleted stays in the index for a while.
    for (let low = first?.id ?? end; low < end && options.signal?.aborted !== true; ) {
      const startedAt = performance.now();
      const high = await endOfPiece(connection, low, end, options.entriesPerDelete ?? entriesPerDelete);
      const { affectedRows } = await connection.run("DELETE FROM ledger_entry WHERE id >= ? AND id < ?", [low, high]);
      entries += affectedRows;
      options.onProgress?.(entries);
      low = high;
      await sleep(Math.max(pauseMsMin, pauseFactor * (performance.now() - startedAt)));
    }
    return { oldest, entries };
  });
}

/** The first block that is young enough, unless a later one is the oldest already. */
async function moveTo(connection: Connection, keepNs: bigint): Promise<OldestKept | undefined> {
  // One at a time moves it; for the loader that is a short wait.
  const progress = await lockProgress(connection);
  if (progress === undefined) return undefined;
  const [block] = await connection.query<{ height: bigint; time_ns: bigint }>(
    "SELECT height, time_ns FROM block WHERE time_ns >= ? ORDER BY time_ns, height LIMIT 1",
    [progress.timeNs - keepNs],
  );
  const [before] =
    block === undefined
      ? []
      : await connection.query("SELECT height FROM block WHERE height < ? LIMIT 1", [block.height]);
  // With no block before it there is nothing to drop.
  if (block !== undefined && before !== undefined) {
    await moveOldestKept(connection, { height: block.height, timeNs: block.time_ns });
  }
  return readOldestKept(connection);
}

/** The id before which so many entries lie. */
async function endOfPiece(connection: Connection, low: bigint, end: bigint, entries: number): Promise<bigint> {
  const [row] = await connection.query<{ id: bigint }>(
    `SELECT id FROM ledger_entry FORCE INDEX (PRIMARY) WHERE id >= ? AND id < ? ORDER BY id LIMIT 1 OFFSET ${entries}`,
    [low, end],
  );
  return row?.id ?? end;
}
