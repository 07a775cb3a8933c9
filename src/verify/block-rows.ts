import { createHash } from "node:crypto";
import { accountRows, entryClassRows } from "../store/account-table.js";
import { type BlockMark, blockDigest, blockRows, type StoredBlock, toMark } from "../store/block-table.js";
import { type Row, toBytes } from "../store/connection/column.js";
import type { Connection, Parameter } from "../store/connection/connection.js";
import { type RowTable, readInOrder, rowText } from "../store/table-rows.js";
import type { Findings } from "./findings.js";

const blocksPerQuery = 2_000;
const rowsPerQuery = 10_000;

/** The blocks up to a height, in order, read in batches. */
export function readBlocks(connection: Connection, to: bigint): AsyncGenerator<StoredBlock[]> {
  return readInOrder<StoredBlock>(connection, blockRows, blocksPerQuery, 0n, to);
}

/** Digests of the rows of a table whose first column numbers them. They are read in order, some ahead. */
class NumberedRows {
  readonly #connection: Connection;
  readonly #table: Pick<RowTable<never>, "select" | "columns">;
  #rows: AsyncGenerator<Parameter[], undefined>;
  #next: Parameter[] | undefined;
  /** The highest number before the next row. */
  #passed = -1;

  constructor(connection: Connection, table: Pick<RowTable<never>, "select" | "columns">) {
    this.#connection = connection;
    this.#table = table;
    this.#rows = this.#read(0);
  }

  /** Of the rows with numbers above `after` up to `last`. */
  async digest(after: number, last: number): Promise<Buffer> {
    const digest = createHash("sha256");
    if (after < this.#passed) {
      this.#rows = this.#read(after + 1);
      this.#next = undefined;
    }
    for (;;) {
      this.#next ??= (await this.#rows.next()).value;
      const row = this.#next;
      const number = Number(row?.[0]);
      if (row === undefined || number > last) return digest.digest();
      if (number > after) digest.update(`${rowText(row)}\n`);
      this.#passed = number;
      this.#next = undefined;
    }
  }

  async *#read(first: number): AsyncGenerator<Parameter[], undefined> {
    const parts = readInOrder<Row>(this.#connection, this.#table, rowsPerQuery, BigInt(first));
    for await (const rows of parts) for (const row of rows) yield Object.values(row);
  }
}

/** Consecutive blocks without digests. */
export interface UndigestedBlocks {
  readonly first: bigint;
  readonly last: bigint;
  readonly blocks: number;
  readonly entries: number;
}

/** Compares each block, with its accounts and entry classes, with its digest and with the previous block. */
export class BlockRows {
  readonly undigested: UndigestedBlocks[] = [];
  readonly #findings: Findings;
  readonly #accounts: NumberedRows;
  readonly #classes: NumberedRows;
  readonly #root: string;
  #before: StoredBlock | undefined;

  /** @param root what the first block's digest covers in place of a block before it */
  constructor(connection: Connection, findings: Findings, root: string) {
    this.#findings = findings;
    this.#root = root;
    this.#accounts = new NumberedRows(connection, accountRows);
    this.#classes = new NumberedRows(connection, entryClassRows);
  }

  /** The last block that was checked. */
  get newest(): StoredBlock | undefined {
    return this.#before;
  }

  async check(block: StoredBlock): Promise<void> {
    const before = this.#before;
    this.#before = block;
    if (before !== undefined && (block.timeNs < before.timeNs || block.streamSequence <= before.streamSequence)) {
      this.#findings.add(
        "block",
        block.height,
        `its time or stream sequence number is before block ${before.height}'s`,
      );
    }
    const { accountMax, classMax, entriesDigest, digest } = block;
    if (accountMax === null && classMax === null && entriesDigest === null && digest === null) {
      this.#noteUndigested(block, before);
    } else if (accountMax === null || classMax === null || entriesDigest === null || digest === null) {
      this.#findings.add("block", block.height, "a part of its digests is missing");
    } else {
      await this.#compare({ ...block, accountMax, classMax, entriesDigest, digest }, before && toMark(before));
    }
  }

  /** The next block with the digest that it should have. Compares nothing. */
  async renew(block: Omit<DigestedBlock, "digest">): Promise<DigestedBlock> {
    const digest = await this.#digest(block, this.#before && toMark(this.#before));
    const renewed = { ...block, digest: digest.toString("latin1") };
    this.#before = renewed;
    return renewed;
  }

  async #compare(block: DigestedBlock, before: BlockMark | undefined): Promise<void> {
    const expected = await this.#digest(block, before);
    if (expected.equals(toBytes(block.digest))) return;
    this.#findings.add(
      "block",
      block.height,
      "it, an account or an entry class that it brought, or the block before it is not what was written",
    );
    const missing = (before?.height ?? block.height) + 1n;
    if (missing < block.height)
      this.#findings.add("block", missing, `there is none of this height up to ${block.height}`);
  }

  async #digest(block: Omit<DigestedBlock, "digest">, before: BlockMark | undefined): Promise<Buffer> {
    return blockDigest(
      before ?? this.#root,
      { ...block, entriesDigest: toBytes(block.entriesDigest) },
      await this.#accounts.digest(before?.accountMax ?? 0, block.accountMax),
      await this.#classes.digest(before?.classMax ?? 0, block.classMax),
    );
  }

  #noteUndigested(block: StoredBlock, before: StoredBlock | undefined): void {
    const { height, ledgerEntries } = block;
    const last = this.undigested.at(-1);
    if (last !== undefined && last.last === before?.height) {
      const { first, blocks, entries } = last;
      this.undigested.splice(-1, 1, { first, last: height, blocks: blocks + 1, entries: entries + ledgerEntries });
      return;
    }
    this.undigested.push({ first: height, last: height, blocks: 1, entries: ledgerEntries });
    if (before === undefined) return;
    this.#findings.add(
      "block",
      height,
      `it has no digest, though block ${before.height} has: digests were removed, or an earlier release loaded on`,
    );
  }
}

/** A block with all its digests. */
export type DigestedBlock = { readonly [K in keyof StoredBlock]: NonNullable<StoredBlock[K]> };
