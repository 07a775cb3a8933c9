import { hash } from "node:crypto";

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
