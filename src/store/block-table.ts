import type { BlockContent, BlockMark } from "./block-digest.js";
import type { Connection } from "./driver-connection.js";
import { upsert } from "./upsert.js";

/** A block that has ended. */
export interface BlockRow extends BlockContent {
  readonly digest: Uint8Array;
}

/** The columns of a block and its digest. */
export const blockColumns = [
  "height",
  "time_ns",
  "stream_sequence",
  "ledger_entries",
  "account_max",
  "class_max",
  "entries_digest",
  "digest",
] as const;

/** Stores blocks; one whose height was there already (a replayed genesis) takes its place. */
export async function writeBlocks(connection: Connection, blocks: readonly BlockRow[]): Promise<void> {
  await upsert(
    connection,
    "block",
    blockColumns,
    blocks.map((block) => [
      ...[block.height, block.timeNs, block.streamSequence, block.ledgerEntries],
      ...[block.accountMax, block.classMax, block.entriesDigest, block.digest],
    ]),
  );
}

/** Positions in use in the block of a height; 0 if there is none. */
export async function readLedgerEntries(connection: Connection, height: bigint): Promise<number> {
  const [row] = await connection.query<{ ledger_entries: number }>(
    "SELECT ledger_entries FROM block WHERE height = ?",
    [height],
  );
  return row?.ledger_entries ?? 0;
}

/** The block of a height, and the one before it, the later first. */
export async function readBlockMarks(connection: Connection, height: bigint): Promise<BlockMark[]> {
  const rows = await connection.query<{
    height: bigint;
    account_max: number | null;
    class_max: number | null;
    digest: string | null;
  }>("SELECT height, account_max, class_max, digest FROM block WHERE height <= ? ORDER BY height DESC LIMIT 2", [
    height,
  ]);
  return rows.map(({ height, account_max, class_max, digest }) => ({
    height,
    accountMax: account_max ?? 0,
    classMax: class_max ?? 0,
    digest: digest === null ? undefined : Buffer.from(digest, "latin1"),
  }));
}
