import type { Connection } from "./database.js";
import { upsert } from "./upsert.js";

/** A block that has ended. */
export interface BlockRow {
  readonly height: bigint;
  readonly timeNs: bigint;
  /** Of its last end_block. */
  readonly streamSequence: bigint;
  /** Positions in use. */
  readonly ledgerEntries: number;
}

/** Stores blocks; one whose height was there already (a replayed genesis) takes its place. */
export async function writeBlocks(connection: Connection, blocks: readonly BlockRow[]): Promise<void> {
  await upsert(
    connection,
    "block",
    ["height", "time_ns", "stream_sequence", "ledger_entries"],
    blocks.map((block) => [block.height, block.timeNs, block.streamSequence, block.ledgerEntries]),
  );
}

/** Positions in use in the block of a height, 0 if there is none. */
export async function readLedgerEntries(connection: Connection, height: bigint): Promise<number> {
  const [row] = await connection.query<{ ledger_entries: number }>(
    "SELECT ledger_entries FROM block WHERE height = ?",
    [height],
  );
  return row?.ledger_entries ?? 0;
}
