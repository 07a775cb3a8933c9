import { firstIdOfBlock } from "../domain/block-position.js";
import { always, type TimeRange } from "../domain/date-range.js";
import { worded } from "../domain/failure.js";
import { asText } from "../store/connection/column.js";
import type { Reader } from "../store/connection/lease.js";
import { type BlockPlace, parsePlace, placeSql, ReadBehindError } from "../store/connection/store-place.js";
import { type IdRange, idMax } from "../store/id-range.js";
import {
  everythingKept,
  notRetained,
  type OldestKept,
  oldestKeptSql,
  parseOldestKept,
} from "../store/ledger-entry-table.js";
import type { DirectoryExtent } from "./account-directory.js";
import type { PlanCosts } from "./ledger-metrics.js";
import { type LedgerSize, type Plan, smallLedgerEntriesMax } from "./plan.js";

/** The extent of the ledger, as seen by one statement. */
export interface LedgerExtent extends DirectoryExtent {
  /** The newest block; undefined: there is none yet. */
  readonly newestBlock: BlockPlace | undefined;
  readonly oldest: OldestKept;
  /** The newest entry; 0: there is none. */
  readonly newest: bigint;
  /** The first id that the time range can have; undefined: no block is so late. */
  readonly start: bigint | undefined;
  /** Ids of the entries in the time range; `low` > `high`: there are none. */
  readonly low: bigint;
  readonly high: bigint;
}

/** What earlier requests found of a store, for the next to begin with. */
export interface KnownLedger {
  /** Undefined: it was empty. */
  readonly storeId: string | undefined;
  /** The oldest block that is kept, as far as it is known. */
  readonly oldest: OldestKept;
  /** When its entries were counted, up to one more than a small ledger has. Undefined: not counted yet. */
  readonly size: LedgerSize | undefined;
}

export const unknownLedger: KnownLedger = { storeId: undefined, oldest: everythingKept, size: undefined };

/** Begins the row of a statement that tells the extent; rows of entries begin with a digit. */
const extentMark = "extent";

/**
 * What one request sees of a growing ledger: everything up to the newest entry when its first statement ran. Every
 * statement also tells how far its server is and which entries are kept, so its rows are proven by their own snapshot.
 */
export class LedgerView {
  readonly costs: PlanCosts[] = [];
  #statements = 0;
  #extent: LedgerExtent | undefined;
  #known: KnownLedger;

  constructor(
    private readonly reader: Reader,
    known: KnownLedger,
    private readonly time = always,
  ) {
    this.#known = known;
  }

  /** The latest word of a statement on which entries are kept; what was read before it has moved has to be read again. */
  get oldest(): OldestKept {
    return this.#known.oldest;
  }

  /** What to begin the next view with. */
  get known(): KnownLedger {
    return this.#known;
  }

  /** Whether the ledger's size is known, as far as this request sees it. Before the first statement it is believed. */
  get isCounted(): boolean {
    const { size } = this.#known;
    if (size === undefined || this.#extent === undefined) return size !== undefined;
    // A large ledger stays large.
    return size.entries > smallLedgerEntriesMax || size.newest === this.#extent.newest;
  }

  /** The size of a small ledger; undefined: it is not small. Runs a statement if the size is not known. */
  async smallSize(): Promise<LedgerSize | undefined> {
    const size = (this.isCounted ? this.#known.size : undefined) ?? (await this.#count());
    return size.entries > smallLedgerEntriesMax ? undefined : size;
  }

  /** @throws Failure `failed_precondition`, which names the field, for an id whose entries were dropped */
  requireKept(id: bigint, path?: string): void {
    if (id >= firstIdOfBlock(this.oldest.height)) return;
    throw worded(({ field }) => {
      const what = path === undefined ? "the export" : field(path);
      return notRetained(what, "ledger entries", this.oldest, "LEDGER_NOT_RETAINED");
    });
  }

  /**
   * Runs SELECTs of one text column each as one statement. Their rows follow each other; a SELECT with a LIMIT keeps
   * its order.
   * @throws ReadBehindError if the server lacks what this process or this response has read already
   */
  async read(...selects: readonly string[]): Promise<string[]> {
    const parts = [extentSql(this.time), ...selects].map((select) => `(${select})`);
    const rows = await this.reader.query<{ readonly entry: string }>(parts.join("\nUNION ALL "));
    this.#statements++;
    const texts: string[] = [];
    for (const { entry } of rows) {
      if (entry.startsWith(extentMark)) this.#note(parseExtent(entry));
      else texts.push(entry);
    }
    return texts;
  }

  /** The extent; runs a statement if none has run yet. */
  async reach(): Promise<LedgerExtent> {
    if (this.#extent === undefined) await this.read();
    if (this.#extent === undefined) throw new Error("a statement did not tell how far the ledger reaches");
    return this.#extent;
  }

  /** @throws ReadBehindError for an entry beyond the newest one, which the statement that found it told */
  requireSeen(id: bigint): void {
    if (this.#extent !== undefined && id > this.#extent.newest) throw inPart();
  }

  /** The part of a range that this request sees; all of it before the first statement. */
  clip(range: IdRange): IdRange {
    const { low: first, high } = this.#extent ?? { low: 0n, high: idMax };
    return {
      low: [first, firstIdOfBlock(this.oldest.height)].reduce((low, id) => (id > low ? id : low), range.low),
      high: range.high < high ? range.high : high,
      descending: range.descending,
    };
  }

  /** Runs a plan and records its cost. */
  async run<T extends { readonly examined: number }>(plan: Plan, execute: () => Promise<T>): Promise<T> {
    const before = this.#statements;
    const outcome = await execute();
    this.costs.push({ plan: plan.name, statements: this.#statements - before, rowsExamined: outcome.examined });
    return outcome;
  }

  async #count(): Promise<LedgerSize> {
    const [entries] = await this.read(
      `SELECT ${asText("COUNT(*)")} FROM
         (SELECT 1 FROM ledger_entry FORCE INDEX (PRIMARY) LIMIT ${smallLedgerEntriesMax + 1}) AS e`,
    );
    const { newest } = await this.reach();
    const size = { entries: Number(entries), newest };
    this.#known = { ...this.#known, size };
    return size;
  }

  #note(extent: LedgerExtent): void {
    const { newestBlock, newest, oldest } = extent;
    this.reader.found(newestBlock);
    if (newestBlock !== undefined && newest >= firstIdOfBlock(newestBlock.height + 1n)) throw inPart();
    const storeId = newestBlock?.storeId;
    if (storeId !== this.#known.storeId) this.#known = { storeId, oldest, size: undefined };
    // A replica that lags may still have more.
    else if (oldest.height > this.oldest.height) this.#known = { ...this.#known, oldest };
    this.#extent ??= extent;
  }
}

/**
 * A block's entries and its place come in one transaction. MariaDB 10.11 was seen to show entries without their place,
 * for a moment after it had ended in the rollback of a transaction on a full disk.
 */
function inPart(): ReadBehindError {
  return new ReadBehindError("the server shows a part of a transaction");
}

/** One row of text: newest entry, oldest block that is kept, highest account and class, first blocks from both ends of the time range, place. */
function extentSql({ startNs, endNs }: TimeRange): string {
  const blockFrom = (timeNs: bigint | undefined) =>
    timeNs === undefined
      ? "'any'"
      : `COALESCE((SELECT height FROM block WHERE time_ns >= ${timeNs} ORDER BY time_ns, height LIMIT 1), 'none')`;
  const words = `'${extentMark}', COALESCE((SELECT MAX(id) FROM ledger_entry), 'none'), ${oldestKeptSql},
    COALESCE((SELECT MAX(account_id) FROM account), 0), COALESCE((SELECT MAX(class_id) FROM entry_class), 0),
    ${blockFrom(startNs)}, ${blockFrom(endNs)}, ${placeSql}`;
  return `SELECT ${asText(`CONCAT_WS(' ', ${words})`)} AS entry`;
}

function parseExtent(text: string): LedgerExtent {
  const [, newest = "", height = "", timeNs = "", accountMax, classMax, from = "", end = "", ...place] =
    text.split(" ");
  const newestBlock = parsePlace(place.length === 0 ? null : place.join(" "));
  const start = from === "any" ? 0n : from === "none" ? undefined : firstIdOfBlock(BigInt(from));
  const oldest = parseOldestKept(height, timeNs);
  const newestId = newest === "none" ? 0n : BigInt(newest);
  const known = {
    newestBlock,
    oldest,
    newest: newestId,
    start,
    accountMax: Number(accountMax),
    classMax: Number(classMax),
  };
  if (newestId === 0n || start === undefined) return { low: 1n, high: 0n, ...known };
  const last = end === "any" || end === "none" ? idMax : firstIdOfBlock(BigInt(end)) - 1n;
  return { low: start, high: last < newestId ? last : newestId, ...known };
}
