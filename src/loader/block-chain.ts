import { createHash, type Hash } from "node:crypto";
import { type AccountRow, accountRows, type EntryClassRow, entryClassRows } from "../store/account-table.js";
import { type BlockContent, type BlockMark, type BlockRow, blockDigest, chainStart } from "../store/block-table.js";
import { rowText, type TableRows } from "../store/table-rows.js";

/** What a block adds to the ledger. */
export interface AddedToLedger {
  /** Text of its entries. */
  readonly entries: Uint8Array;
  readonly accounts: readonly AccountRow[];
  readonly classes: readonly EntryClassRow[];
  /** The highest numbers in use. */
  readonly accountMax: number;
  readonly classMax: number;
}

/** The state from which a chain of digests continues. */
export interface ChainStart {
  /** What the first block's digest covers in place of a block before it. */
  readonly root: string;
  /** The newest block and the one before it, the later first. */
  readonly marks: readonly BlockMark[];
  /** Text of the newest block's entries. */
  readonly entries: Uint8Array;
  readonly accounts: readonly AccountRow[];
  readonly classes: readonly EntryClassRow[];
}

/** The digests of the rows that belong to one block. */
class OpenDigests {
  readonly #entries = createHash("sha256");
  readonly #accounts = createHash("sha256");
  readonly #classes = createHash("sha256");

  /** Adds rows after the accounts and classes of the previous block. */
  add(added: Omit<AddedToLedger, "accountMax" | "classMax">, before?: BlockMark): void {
    this.#entries.update(added.entries);
    addRows(this.#accounts, accountRows, added.accounts, ({ accountId }) => accountId > (before?.accountMax ?? 0));
    addRows(this.#classes, entryClassRows, added.classes, ({ classId }) => classId > (before?.classMax ?? 0));
  }

  /** The digests of what was added so far; a height can be repeated. */
  get now(): { readonly entries: Buffer; readonly accounts: Buffer; readonly classes: Buffer } {
    const now = (digest: Hash): Buffer => digest.copy().digest();
    return { entries: now(this.#entries), accounts: now(this.#accounts), classes: now(this.#classes) };
  }
}

function addRows<R>(digest: Hash, { values }: TableRows<R>, rows: readonly R[], isNew: (row: R) => boolean): void {
  for (const row of rows) if (isNew(row)) digest.update(`${rowText(values(row))}\n`);
}

/** The chain of the blocks' digests, as `marketd verify` recomputes it. */
export class BlockChain {
  /** The last block that ended, and the one before it. */
  #newest: BlockMark | undefined;
  #before: BlockMark | undefined;
  readonly #root: string;
  #open = new OpenDigests();
  /** Where the first block must cover the blocks without digests. */
  #start: ChainStart | undefined;

  constructor(
    start: ChainStart = { root: chainStart, marks: [], entries: Buffer.alloc(0), accounts: [], classes: [] },
  ) {
    this.#root = start.root;
    this.#start = start;
    [this.#newest, this.#before] = start.marks;
  }

  /** The row of a block that ends. It replaces a previous one of the same height. */
  end(place: Pick<BlockRow, "height" | "timeNs" | "streamSequence" | "ledgerEntries">, added: AddedToLedger): BlockRow {
    const isReplay = this.#newest?.height === place.height;
    if (!isReplay) {
      this.#before = this.#newest;
      this.#open = new OpenDigests();
    }
    if (this.#start !== undefined) {
      const { entries, accounts, classes } = this.#start;
      this.#open.add({ entries: isReplay ? entries : Buffer.alloc(0), accounts, classes }, this.#before);
      this.#start = undefined;
    }
    this.#open.add(added);
    const digests = this.#open.now;
    const { accountMax, classMax } = added;
    const block: BlockContent = { ...place, accountMax, classMax, entriesDigest: digests.entries };
    const digest = blockDigest(this.#before ?? this.#root, block, digests.accounts, digests.classes);
    this.#newest = { height: place.height, accountMax, classMax, digest };
    return { ...block, digest };
  }
}
