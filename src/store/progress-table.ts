import { randomBytes } from "node:crypto";
import { OperatorError } from "../domain/operator-error.js";
import type { Connection } from "./connection/connection.js";
import { ServerBehindError } from "./connection/database-error.js";
import type { TableRows } from "./table-rows.js";

/** The progress of the loader. */
export interface Progress {
  readonly chainId: string;
  /** Of the last end_block that was applied, or of the last protocol upgrade. */
  readonly streamSequence: bigint;
  readonly height: bigint;
  readonly timeNs: bigint;
  /** Tombstones of price levels with a `changedSequence` up to this may have been pruned. */
  readonly prunedSequence: bigint;
}

/** The progress, and the name of the store. */
export interface StoreProgress extends Progress {
  /** The store's random id; empty if it has none yet. Another id means another store. */
  readonly storeId: string;
}

/** Another process has written since this one last read the progress. */
export class SecondWriterError extends OperatorError {
  constructor(
    reason = "another process is loading into this database: only one may at a time; nothing of this block was written",
  ) {
    super(reason);
    this.name = "SecondWriterError";
  }
}

/** @throws ServerBehindError if the progress found is behind what was committed */
export function checkNotBehind(committed: Progress | undefined, found: Progress | undefined): void {
  if (committed === undefined) return;
  if (found !== undefined && found.chainId !== committed.chainId) return;
  if (found !== undefined && found.streamSequence >= committed.streamSequence) return;
  throw new ServerBehindError(committed.streamSequence, found?.streamSequence);
}

/** Without the store's name, which operators may change. */
export const progressRows: TableRows<Progress> = {
  table: "progress",
  columns: ["id", "chain_id", "stream_sequence", "height", "block_time_ns", "pruned_sequence"],
  keyColumns: 1,
  values: (row) => [1, row.chainId, row.streamSequence, row.height, row.timeNs, row.prunedSequence],
};

/** Whose turn it is to load, and a count that moves while that loader lives. */
export interface LoaderTurn {
  /** Empty: nobody's. */
  readonly loaderId: string;
  readonly beat: bigint;
}

/** Undefined: nothing was loaded yet. */
export async function readTurn(connection: Connection): Promise<LoaderTurn | undefined> {
  const [turn] = await connection.query<LoaderTurn>(
    "SELECT loader_id AS loaderId, loader_beat AS beat FROM progress WHERE id = 1",
  );
  return turn;
}

/** Takes the turn, if it still is as it was found. */
export async function takeTurn(connection: Connection, found: LoaderTurn, loaderId: string): Promise<boolean> {
  const { affectedRows } = await connection.run(
    `UPDATE progress SET loader_id = ?, loader_beat = loader_beat + 1
     WHERE id = 1 AND loader_id = ? AND loader_beat = ?`,
    [loaderId, found.loaderId, found.beat],
  );
  return affectedRows === 1;
}

/** Shows that the loader lives. False: the turn is another's. */
export async function beatTurn(connection: Connection, loaderId: string): Promise<boolean> {
  const { affectedRows } = await connection.run(
    "UPDATE progress SET loader_beat = loader_beat + 1 WHERE id = 1 AND loader_id = ?",
    [loaderId],
  );
  return affectedRows === 1;
}

/** Gives the turn up, so that another loader need not wait. */
export async function endTurn(connection: Connection, loaderId: string): Promise<void> {
  await connection.run("UPDATE progress SET loader_id = '' WHERE id = 1 AND loader_id = ?", [loaderId]);
}

export const progressSql = `
  SELECT store_id AS storeId, chain_id AS chainId, stream_sequence AS streamSequence, height, block_time_ns AS timeNs,
    pruned_sequence AS prunedSequence
  FROM progress WHERE id = 1`;

/** A cheap query for one row by its key. Undefined: nothing was loaded yet. */
export async function readProgress(connection: Connection): Promise<StoreProgress | undefined> {
  const [row] = await connection.query<StoreProgress>(progressSql);
  return row;
}

/** Who moves the progress on. */
export interface ProgressWriter {
  /** Whose turn it is from now on; empty: nobody's. */
  readonly loaderId: string;
  /** The digest of the newest block that this writer goes on from; undefined: it has none. */
  readonly newestDigest: Uint8Array | undefined;
  /** Whether the past of books is written too. */
  readonly keepsPast: boolean;
}

/**
 * Moves the progress on if it, and the newest block's digest, still are as this writer left them. It is the first
 * statement of a transaction: a second writer waits here for the first one's end, and then fails.
 * @throws SecondWriterError when another process wrote meanwhile, or renewed the digests
 * @throws ServerBehindError when the server holds less than `before`
 */
export async function advanceProgress(
  connection: Connection,
  before: Progress | undefined,
  after: Omit<Progress, "prunedSequence">,
  { loaderId, newestDigest, keepsPast }: ProgressWriter,
): Promise<void> {
  const values = [after.chainId, after.streamSequence, after.height, after.timeNs];
  const past = keepsPast ? after.streamSequence : null;
  const { affectedRows } =
    before === undefined
      ? await connection.run(
          `INSERT IGNORE INTO progress
             (id, chain_id, stream_sequence, height, block_time_ns, pruned_sequence, store_id, loader_id, history_sequence)
           VALUES (1, ?, ?, ?, ?, 0, ?, ?, COALESCE(?, 0))`,
          [...values, newStoreId(), loaderId, past],
        )
      : await connection.run(
          `UPDATE progress SET chain_id = ?, stream_sequence = ?, height = ?, block_time_ns = ?,
             loader_id = ?, loader_beat = loader_beat + 1, history_sequence = COALESCE(?, history_sequence)
           WHERE id = 1 AND chain_id = ? AND stream_sequence = ?
             AND (SELECT digest FROM block WHERE height = ?) <=> ?`,
          [...values, loaderId, past, before.chainId, before.streamSequence, before.height, newestDigest ?? null],
        );
  if (affectedRows === 1) return;
  const found = await readProgress(connection);
  checkNotBehind(before, found);
  if (found === undefined || found.streamSequence !== before?.streamSequence) throw new SecondWriterError();
  throw new SecondWriterError(
    "the newest block's digest is not the one that this load goes on from, as after marketd verify --renew-digests: load again",
  );
}

/** A random id for a store, of printable ASCII. */
function newStoreId(): string {
  return randomBytes(12).toString("hex");
}

/** Sets the id of a store that an older program created. The id is a literal, so that replicas get the same. */
export async function nameStore(connection: Connection): Promise<void> {
  const unnamed = await connection.query("SELECT id FROM progress WHERE id = 1 AND store_id = ''");
  if (unnamed.length === 0) return;
  await connection.run("UPDATE progress SET store_id = ? WHERE id = 1 AND store_id = ''", [newStoreId()]);
}

/** Reads and locks the progress until the transaction ends. Call it before any other read in the transaction. */
export async function lockProgress(connection: Connection): Promise<StoreProgress | undefined> {
  const [row] = await connection.query<StoreProgress>(`${progressSql} FOR UPDATE`);
  return row;
}
