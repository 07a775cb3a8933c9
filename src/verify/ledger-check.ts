import { createHash } from "node:crypto";
import { entryId, firstIdOfBlock, positionBits } from "../domain/block-position.js";
import type { StoredBlock } from "../store/block-table.js";
import type { Connection } from "../store/connection/connection.js";
import { entriesPerText, readEntries, readOldestKept } from "../store/ledger-entry-table.js";
import type { Accounts } from "./accounts.js";
import { Balances } from "./balances.js";
import { type BlockRows, readBlocks } from "./block-rows.js";
import { EntryRows, lowMax, type SplitId, splitId } from "./entry-rows.js";
import type { Findings } from "./findings.js";

/** The maximum number of entries of a block, which is read of a block that claims more. */
const entriesMax = 1 << 24;

/** Takes new digests of blocks in place of comparing them with those that are stored. */
export interface RenewDigests {
  /** Called for each entry that is kept. */
  entry(fromAccount: number, toAccount: number, classId: number): void;
  /** Called for each block. `entriesDigest` is undefined if its entries were dropped. */
  block(block: StoredBlock, entriesDigest: string | undefined): Promise<void>;
  /** Called often. */
  keepTurn(): Promise<void>;
}

/** The progress of the check. */
export interface LedgerProgress {
  readonly blocks: number;
  readonly entries: number;
  readonly height: bigint;
}

/** Consecutive blocks, or a part of one, whose entries are read together. */
interface Piece {
  readonly blocks: readonly StoredBlock[];
  readonly low: bigint;
  readonly high: bigint;
  /** Whether the last block continues in the next piece. */
  readonly isCut: boolean;
}

/** A piece with its entries. */
interface ReadPiece extends Piece {
  readonly rows: EntryRows;
  /** Rows that the server counted. */
  readonly entries: bigint;
  /** The oldest block with entries at that time. */
  readonly oldest: bigint;
}

/** Splits the ids of blocks into pieces without gaps. Blocks before `oldest` are not read. */
async function* piecesOf(pages: AsyncIterable<StoredBlock[]>, oldest: bigint): AsyncGenerator<Piece> {
  let low = firstIdOfBlock(oldest);
  for await (const page of pages) {
    let blocks: StoredBlock[] = [];
    let entries = 0;
    const firstKept = page.findIndex(({ height }) => height >= oldest);
    const dropped = firstKept < 0 ? page : page.slice(0, firstKept);
    if (dropped.length > 0) yield { blocks: dropped, low: 1n, high: 0n, isCut: false };
    if (firstKept < 0) continue;
    for (const block of page.slice(firstKept)) {
      const { height, ledgerEntries } = block;
      if (blocks.length > 0 && entries + ledgerEntries > entriesPerText) {
        const high = firstIdOfBlock(height) - 1n;
        yield { blocks, low, high, isCut: false };
        [low, blocks, entries] = [high + 1n, [], 0];
      }
      const claimed = Math.min(ledgerEntries, entriesMax);
      let rest = claimed;
      for (; rest > entriesPerText; rest -= entriesPerText) {
        const high = entryId(height, claimed - rest + entriesPerText) - 1n;
        yield { blocks: [block], low, high, isCut: true };
        low = high + 1n;
      }
      blocks.push(block);
      entries += rest;
    }
    const high = firstIdOfBlock((page.at(-1)?.height ?? 0n) + 1n) - 1n;
    yield { blocks, low, high, isCut: false };
    low = high + 1n;
  }
}

/** Compares the entries of blocks with the digests of the blocks, and with each other. */
export class LedgerCheck {
  readonly #balances: Balances;
  #progress: { blocks: number; entries: number; height: bigint } = { blocks: 0, entries: 0, height: 0n };
  /** The block whose entries are being read. */
  #digest = createHash("sha256");
  #positions = 0;
  /** The expected id of the next entry. */
  #expected = { high: 0, low: 0 };
  #isMisplaced = false;
  /** Entries of blocks before this may have been dropped. */
  #oldest = 0n;

  /** `readers` read entries at the same time, and must not be used by others meanwhile. */
  constructor(
    private readonly readers: readonly Connection[],
    private readonly blocks: BlockRows,
    private readonly accounts: Accounts,
    private readonly findings: Findings,
    private readonly renewal?: RenewDigests,
  ) {
    this.#balances = new Balances(accounts);
  }

  /** Checks all blocks up to a height. Each reader reads another piece while one is checked. */
  async run(
    blockReader: Connection,
    newest: bigint,
    onProgress: (progress: LedgerProgress) => void,
  ): Promise<LedgerProgress> {
    this.#oldest = (await readOldestKept(blockReader)).height;
    const pieces = piecesOf(readBlocks(blockReader, newest), this.#oldest);
    const pending: { readonly reader: Connection; readonly piece: Promise<ReadPiece | undefined> }[] = [];
    const read = (reader: Connection): void => {
      const piece = pieces.next().then((next) => (next.done === true ? undefined : this.#read(reader, next.value)));
      // Awaited in its turn, unless an earlier piece fails.
      piece.catch(() => {});
      pending.push({ reader, piece });
    };
    for (const reader of this.readers) read(reader);
    for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
      const now = await next.piece;
      if (now === undefined) break;
      read(next.reader);
      await this.#check(now);
      await this.renewal?.keepTurn();
      onProgress(this.#progress);
    }
    for (const [asset, amount] of this.#balances.appeared()) {
      const what = amount > 0n ? `${amount} appeared` : `${-amount} vanished`;
      this.findings.add("ledger_entry", undefined, `of asset ${asset} ${what} between entries`);
      this.findings.ofSource++;
    }
    return this.#progress;
  }

  async #read(reader: Connection, piece: Piece): Promise<ReadPiece> {
    const { low, high, blocks } = piece;
    const { entries, text, oldest } = await readEntries(reader, low, high);
    if (entries > BigInt(entriesPerText)) {
      const finding = `${entries} entries are where at most ${entriesPerText} belong`;
      this.findings.add("ledger_entry", blocks[0]?.height, finding);
    }
    return { ...piece, entries, rows: new EntryRows(text), oldest: oldest.height };
  }

  async #check({ blocks, isCut, rows, oldest, entries }: ReadPiece): Promise<void> {
    if (oldest > this.#oldest) {
      // Dropped meanwhile: the next entries do not follow from the known balances.
      this.#oldest = oldest;
      this.#balances.forget();
    }
    let hasRow = rows.nextId();
    const passStrays = (first: SplitId | undefined): void => {
      for (; hasRow && (first === undefined || rows.isBefore(first)); hasRow = rows.nextId()) {
        rows.readRow();
        const height = rows.id >> positionBits;
        if (height < this.#oldest) continue;
        this.findings.add("ledger_entry", height, `entry ${rows.id} belongs to no block`);
      }
    };
    for (const [index, block] of blocks.entries()) {
      const first = splitId(firstIdOfBlock(block.height));
      const end = splitId(firstIdOfBlock(block.height + 1n));
      passStrays(first);
      if (this.#positions === 0) this.#expected = { ...first };
      const start = hasRow ? rows.start : rows.end;
      let stop = start;
      for (; hasRow && rows.isBefore(end); hasRow = rows.nextId()) {
        rows.readRow();
        this.#entry(block, rows);
        stop = rows.end;
      }
      this.#digest.update(rows.text(start, stop));
      if (!isCut || index < blocks.length - 1) await this.#endBlock(block);
    }
    if (!isCut) passStrays(undefined);
    // A column may hold the text of another row.
    if (entries <= BigInt(entriesPerText) && BigInt(rows.count) !== entries) {
      this.findings.add("ledger_entry", blocks[0]?.height, `${entries} entries read as ${rows.count}`);
    }
  }

  #entry(block: StoredBlock, rows: EntryRows): void {
    if (!this.#isMisplaced && block.height >= this.#oldest && !rows.isId(this.#expected)) {
      this.#isMisplaced = true;
      const text = `entry ${rows.id} is there where position ${this.#positions} belongs`;
      this.findings.add("ledger_entry", block.height, text);
    }
    this.#positions++;
    this.#expected.low++;
    if (this.#expected.low === lowMax) this.#expected = { high: this.#expected.high + 1, low: 0 };
    if (block.height < this.#oldest) return;
    const { from, to, classId, transferType, quantity, fromBalance, toBalance } = rows;
    this.renewal?.entry(from, to, classId);
    const problem = this.accounts.problem(from, to, classId, transferType);
    if (problem !== undefined) {
      this.findings.add("ledger_entry", block.height, `entry ${rows.id} ${problem}`);
      return;
    }
    this.#balance(block, rows, from, this.#balances.leg(from, -quantity, fromBalance));
    this.#balance(block, rows, to, this.#balances.leg(to, quantity, toBalance));
  }

  #balance(block: StoredBlock, rows: EntryRows, account: number, difference: bigint | undefined): void {
    if (difference === undefined) return;
    const text = `entry ${rows.id} states a balance of account ${account} that is off by ${difference}`;
    this.findings.add("ledger_entry", block.height, text);
    // A row that was changed since is found by its digest too.
    this.findings.ofSource++;
  }

  async #endBlock(block: StoredBlock): Promise<void> {
    const { height, ledgerEntries, entriesDigest } = block;
    const digest = this.#digest.digest().toString("latin1");
    // Some that were dropped may still exist, because `retain` deletes them gradually.
    const isKept = height >= this.#oldest;
    if (this.renewal !== undefined) {
      await this.renewal.block(block, isKept ? digest : undefined);
    } else if (isKept && this.#positions !== ledgerEntries) {
      const text = `it has ${this.#positions} entries, and ${ledgerEntries} were written`;
      this.findings.add("ledger_entry", height, text);
    } else if (isKept && entriesDigest !== null && digest !== entriesDigest) {
      this.findings.add("ledger_entry", height, "its entries are not what was written");
    }
    if (this.renewal === undefined) await this.blocks.check(block);
    this.#progress = {
      blocks: this.#progress.blocks + 1,
      entries: this.#progress.entries + this.#positions,
      height,
    };
    this.#digest = createHash("sha256");
    this.#positions = 0;
    this.#isMisplaced = false;
  }
}
