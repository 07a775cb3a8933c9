import { hash } from "node:crypto";
import { toBytes } from "./connection/column.js";
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

/** A row of `block`, as it is read. Rows of releases without digests have null in the last four columns. */
export interface StoredBlock extends Omit<BlockContent, "accountMax" | "classMax" | "entriesDigest"> {
  readonly accountMax: number | null;
  readonly classMax: number | null;
  /** One character per byte. */
  readonly entriesDigest: string | null;
  readonly digest: string | null;
}

/** The newest two blocks up to a height, the later first. */
export function readNewestBlocks(connection: Connection, height: bigint): Promise<StoredBlock[]> {
  return connection.query<StoredBlock>(`${blockRows.select} WHERE height <= ? ORDER BY height DESC LIMIT 2`, [height]);
}

/** What the next block's digest says of a stored one. */
export function toMark({ height, accountMax, classMax, digest }: StoredBlock): BlockMark {
  const bytes = digest === null ? undefined : toBytes(digest);
  return { height, accountMax: accountMax ?? 0, classMax: classMax ?? 0, digest: bytes };
}
