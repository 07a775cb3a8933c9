import { hash } from "node:crypto";
import type { Connection } from "./connection/connection.js";
import { rowTable } from "./table-rows.js";

/** What a block's digest covers beside the digest before it. */
export interface BlockContent {
  readonly height: bigint;
  readonly timeNs: bigint;
  readonly streamSequence: bigint;
  readonly ledgerEntries: number;
  /** Highest numbers in use after the block. */
  readonly accountMax: number;
  readonly classMax: number;
  /** SHA-256 of its ledger entries: of each its columns with tabs between, and a line feed. */
  readonly entriesDigest: Uint8Array;
}

/** What the next block's digest says of the block before it. */
export interface BlockMark {
  readonly height: bigint;
  /** 0 where the block has no digest: the next one then covers all accounts and classes that there are. */
  readonly accountMax: number;
  readonly classMax: number;
  /** Undefined: a program without digests wrote the block. */
  readonly digest: Uint8Array | undefined;
}

/** What stands in place of the block before the first one. */
export const chainStart = "none";

/**
 * The digest of a block; the others are those of the rows of its new accounts and its new classes. `before` is the block
 * before it; of the first block the start of the chain: {@link chainStart}, or what says that digests were renewed.
 */
export function blockDigest(
  before: BlockMark | string,
  block: BlockContent,
  accountsDigest: Uint8Array,
  classesDigest: Uint8Array,
): Buffer {
  const parts = [
    typeof before === "string" ? before : before.height,
    hex(typeof before === "string" ? new Uint8Array() : (before.digest ?? new Uint8Array())),
    block.height,
    block.timeNs,
    block.streamSequence,
    block.ledgerEntries,
    block.accountMax,
    block.classMax,
    ...[block.entriesDigest, accountsDigest, classesDigest].map(hex),
  ];
  return hash("sha256", parts.join("\t"), "buffer");
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}

/** A block that has ended. */
export interface BlockRow extends BlockContent {
  readonly digest: Uint8Array;
}

export const blockRows = rowTable<BlockRow>("block", 1, [
  "height",
  "timeNs",
  "streamSequence",
  "ledgerEntries",
  "accountMax",
  "classMax",
  "entriesDigest",
  "digest",
]);

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
    accountMax: number | null;
    classMax: number | null;
    digest: string | null;
  }>(`${blockRows.select} WHERE height <= ? ORDER BY height DESC LIMIT 2`, [height]);
  return rows.map(toMark);
}

/** What the next block's digest says of a stored one. */
export function toMark(block: {
  readonly height: bigint;
  readonly accountMax: number | null;
  readonly classMax: number | null;
  readonly digest: string | null;
}): BlockMark {
  return {
    height: block.height,
    accountMax: block.accountMax ?? 0,
    classMax: block.classMax ?? 0,
    digest: block.digest === null ? undefined : Buffer.from(block.digest, "latin1"),
  };
}
