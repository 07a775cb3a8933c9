import { firstIdOfBlock } from "../domain/block-position.js";
import type { TimeRange } from "../domain/date-range.js";
import { Failure, worded } from "../domain/failure.js";
import { asText } from "../store/connection/column.js";
import type { Reader } from "../store/connection/lease.js";
import { type BlockPlace, parsePlace, placeSql } from "../store/connection/store-place.js";
import { everythingKept, type OldestKept, oldestKeptSql, parseOldestKept } from "../store/ledger-entry-table.js";
import type { DirectoryExtent } from "./account-directory.js";
import { type IdRange, idMax } from "./id-range.js";
import type { PlanCosts } from "./ledger-metrics.js";
import type { Plan } from "./plan.js";

/** The range of all times. */
export const always: TimeRange = { startNs: undefined, endNs: undefined };

/** The extent of the ledger, as seen by one statement. */
export interface LedgerExtent extends DirectoryExtent {
  /** The newest block; undefined: there is none yet. */
  readonly newestBlock: BlockPlace | undefined;
  readonly oldest: OldestKept;
  /** The first id that the time range can have; undefined: no block is so late. */
  readonly start: bigint | undefined;
  /** Ids of the entries in the time range; `low` > `high`: there are none. */
  readonly low: bigint;
  readonly high: bigint;
}

/** The oldest block that is kept in a store, as far as it is known. */
export interface KnownOldest extends OldestKept {
  readonly storeId: string;
}

export const unknownOldest: KnownOldest = { ...everythingKept, storeId: "" };

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
  #oldest: KnownOldest;
  readonly #reader: Reader;
  readonly #time: TimeRange;

  constructor(reader: Reader, oldest: KnownOldest, time = always) {
    this.#reader = reader;
    this.#oldest = oldest;
    this.#time = time;
  }

  /** Undefined before the first statement. */
  get extent(): LedgerExtent | undefined {
    return this.#extent;
  }

  /** The latest word of a statement on which entries are kept; what was read before it has moved has to be read again. */
  get oldest(): KnownOldest {
    return this.#oldest;
  }

  /** @throws Failure `failed_precondition`, which names the field, for an id whose entries were dropped */
  requireKept(id: bigint, path?: string): void {
    const { height, timeNs } = this.#oldest;
    if (id >= firstIdOfBlock(height)) return;
    throw worded(({ field }) => {
      const what = path === undefined ? "the export" : field(path);
      const message = `${what} reaches before block ${height}, the oldest whose ledger entries are kept; begin at its time, ${timeNs}, or later`;
      return new Failure("failed_precondition", message, { reason: "LEDGER_NOT_RETAINED" });
    });
  }

  /**
   * Runs SELECTs of one text column each as one statement. Their rows follow each other; a SELECT with a LIMIT keeps
   * its order.
   * @throws ReadBehindError if the server lacks what this process or this response has read already
   */
  async read(...selects: readonly string[]): Promise<string[]> {
    const parts = [extentSql(this.#time), ...selects].map((select) => `(${select})`);
    const rows = await this.#reader.query<{ readonly entry: string }>(parts.join("\nUNION ALL "));
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

  /** The part of a range that this request sees; all of it before the first statement. */
  clip(range: IdRange): IdRange {
    const { low: first, high } = this.#extent ?? { low: 0n, high: idMax };
    return {
      low: [first, firstIdOfBlock(this.#oldest.height)].reduce((low, id) => (id > low ? id : low), range.low),
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

  #note(extent: LedgerExtent): void {
    const { newestBlock } = extent;
    this.#reader.found(newestBlock);
    if (newestBlock !== undefined) this.#noteOldest({ storeId: newestBlock.storeId, ...extent.oldest });
    this.#extent ??= extent;
  }

  /** A replica that lags may still have more; another store has a beginning of its own. */
  #noteOldest(found: KnownOldest): void {
    if (found.storeId === this.#oldest.storeId && found.height <= this.#oldest.height) return;
    this.#oldest = found;
  }
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
  const known = { newestBlock, oldest, start, accountMax: Number(accountMax), classMax: Number(classMax) };
  if (newest === "none" || start === undefined) return { low: 1n, high: 0n, ...known };
  const last = end === "any" || end === "none" ? idMax : firstIdOfBlock(BigInt(end)) - 1n;
  const high = BigInt(newest);
  return { low: start, high: last < high ? last : high, ...known };
}
