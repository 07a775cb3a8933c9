import { createHash } from "node:crypto";
import { accountRows, entryClassRows } from "../store/account-table.js";
import { type BlockMark, blockDigest, blockRows, toMark } from "../store/block-table.js";
import type { Connection, Parameter } from "../store/connection/connection.js";
import { rowText, type TableRows } from "../store/table-rows.js";
import type { Findings } from "./findings.js";

const blocksPerQuery = 2_000;
const rowsPerQuery = 10_000;

/** A row of `block`. Rows of releases without digests have null in the last four columns. */
export interface StoredBlock {
  readonly height: bigint;
  readonly timeNs: bigint;
  readonly streamSequence: bigint;
  readonly ledgerEntries: number;
  readonly accountMax: number | null;
  readonly classMax: number | null;
  /** One character per byte. */
  readonly entriesDigest: string | null;
  readonly digest: string | null;
}

/** The blocks of a range of heights, in order, read in batches. */
export async function* readBlocks(connection: Connection, from: bigint, to: bigint): AsyncGenerator<StoredBlock[]> {
  for (let next = from; ; ) {
    const blocks = await connection.query<{ [K in keyof StoredBlock]: StoredBlock[K] }>(
      `${blockRows.select} WHERE height >= ? AND height <= ?
       ORDER BY height LIMIT ${blocksPerQuery}`,
      [next, to],
    );
    if (blocks.length > 0) yield blocks;
    if (blocks.length < blocksPerQuery) return;
    next = (blocks.at(-1)?.height ?? to) + 1n;
  }
}

/** Digests of the rows of a table whose first column numbers them. They are read in order, some ahead. */
class NumberedRows {
  readonly #connection: Connection;
  readonly #table: Pick<TableRows<never>, "table" | "columns">;
  #rows: Parameter[][] = [];
  /** The next of them. */
  #at = 0;
  /** The highest numbers that were read, and that were passed. */
  #readTo = -1;
  #passed = -1;
  #isAll = false;

  constructor(connection: Connection, table: Pick<TableRows<never>, "table" | "columns">) {
    this.#connection = connection;
    this.#table = table;
  }

  /** Of the rows with numbers above `after` up to `last`. */
  async digest(after: number, last: number): Promise<Buffer> {
    const digest = createHash("sha256");
    if (after < this.#passed) this.#goBack(after);
    for (let row = await this.#next(); row !== undefined; row = await this.#next()) {
      const number = Number(row[0]);
      if (number > last) break;
      if (number > after) digest.update(`${rowText(row)}\n`);
      this.#passed = number;
      this.#at++;
    }
    return digest.digest();
  }

  #goBack(after: number): void {
    this.#rows = [];
    this.#at = 0;
    this.#readTo = after;
    this.#isAll = false;
  }

  async #next(): Promise<Parameter[] | undefined> {
    if (this.#at >= this.#rows.length && !this.#isAll) await this.#read();
    return this.#rows[this.#at];
  }

  async #read(): Promise<void> {
    const { table, columns } = this.#table;
    const [number = ""] = columns;
    const rows = await this.#connection.query(
      `SELECT ${columns.join(", ")} FROM ${table} WHERE ${number} > ? ORDER BY ${number} LIMIT ${rowsPerQuery}`,
      [this.#readTo],
    );
    this.#rows = rows.map((row) => columns.map((name) => row[name] ?? null));
    this.#at = 0;
    this.#readTo = Number(this.#rows.at(-1)?.[0] ?? this.#readTo);
    this.#isAll = rows.length < rowsPerQuery;
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
    if (expected.equals(bytes(block.digest))) return;
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
      { ...block, entriesDigest: bytes(block.entriesDigest) },
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

/** What a column of bytes is read as, as bytes. */
export function bytes(text: string): Buffer {
  return Buffer.from(text, "latin1");
}
