import type { TimeRange } from "../domain/date-range.js";
import type { Call } from "../domain/service.js";
import type { Account, AccountDirectory } from "./account-directory.js";
import type { EntryRow, IdRange } from "./branch-merge.js";
import type { StorePlace } from "./known-place.js";
import type { LedgerReader, LedgerView } from "./ledger-entry-query.js";
import { scanEntries } from "./ledger-scan.js";
import { type Branch, type LedgerSelection, selectEntries } from "./ledger-selection.js";
import type { PlacedConnection } from "./placed-read.js";

/** Entries that a query of an export fetches about; at most three times as many. */
export const exportBatchRows = 6_000;

/** What is exported. */
export interface ExportSubject {
  readonly partyId: string;
  readonly assetId: string;
  readonly time: TimeRange;
}

/**
 * An entry as text, with spaces between: id, from account, to account, class, block time in nanoseconds, quantity,
 * balance of the from account, balance of the to account. One column is what the driver reads fastest.
 */
export type EntryText = string;

const textColumns = [
  "id",
  "from_account",
  "to_account",
  "class_id",
  "time_ns",
  "quantity",
  "from_balance",
  "to_balance",
];

/**
 * The entries of one party and asset, oldest first, up to the newest block when it was opened: the ledger only grows,
 * so that is a consistent view without a transaction. Holds a connection only while a batch is read.
 *
 * A batch is the matches in a stretch of ids, gathered from the indexes. How long the stretch must be is learnt from
 * the one before; where a stretch is empty, a merge finds the next match, however far away it is.
 */
export class LedgerExport {
  readonly newestBlock: LedgerView["newestBlock"];
  /** What every batch depends on. */
  readonly #place: StorePlace | undefined;
  readonly #ledger: LedgerReader;
  readonly #directory: AccountDirectory;
  readonly #selection: LedgerSelection;
  readonly #own: ReadonlySet<number>;
  readonly #high: bigint;
  readonly #batchRows: number;
  #low: bigint;
  /** Ids that the next stretch spans; undefined: nothing is known yet. */
  #span: bigint | undefined;

  constructor(ledger: LedgerReader, view: LedgerView, subject: ExportSubject, batchRows = exportBatchRows) {
    this.#batchRows = batchRows;
    const { partyId, assetId } = subject;
    const side = { partyId, assetId, marketIds: [], types: [] };
    this.#ledger = ledger;
    this.#directory = view.directory;
    this.newestBlock = view.newestBlock;
    this.#place = view.newestBlock;
    this.#selection = selectEntries(view.directory, { from: side, to: side, closed: false, transferTypes: [] });
    const own = view.directory.accountsOf(partyId).filter(({ kind }) => kind.assetId === assetId);
    this.#own = new Set(own.map(({ id }) => id));
    this.#low = view.ids?.low ?? 1n;
    this.#high = view.ids?.high ?? 0n;
  }

  /** @throws Failure */
  static async open(
    ledger: LedgerReader,
    subject: ExportSubject,
    call?: Call,
    batchRows?: number,
  ): Promise<LedgerExport> {
    const view = await ledger.borrow(call, (connection) => ledger.view(connection, subject.time));
    return new LedgerExport(ledger, view, subject, batchRows);
  }

  /** Whether an account is the party's own, in the asset. */
  owns(account: number): boolean {
    return this.#own.has(account);
  }

  account(id: number): Account {
    return this.#directory.account(id);
  }

  transferType(classId: number): number {
    return this.#directory.entryClass(classId).transferType;
  }

  /** The next entries; none: that was all. @throws Failure */
  async next(call?: Call): Promise<readonly EntryText[]> {
    while (this.#low <= this.#high) {
      const read = (connection: PlacedConnection): Promise<Batch> => {
        if (this.#place !== undefined) connection.dependOn(this.#place);
        return this.#span === undefined ? this.#merge(connection) : this.#gather(connection, this.#span);
      };
      const { rows, low, span } = await this.#ledger.borrow(call, read, true);
      // Only what was proven counts: a batch that was not is read again.
      this.#low = low;
      this.#span = span;
      if (rows.length > 0) return rows;
    }
    return [];
  }

  get #rowsMax(): number {
    return 3 * this.#batchRows;
  }

  /** Finds the next matches, wherever they are. */
  async #merge(connection: PlacedConnection): Promise<Batch> {
    const range = { low: this.#low, high: this.#high, descending: false };
    const want = Math.ceil(this.#batchRows / 10);
    const { rows, reached } = await scanEntries(connection, this.#selection, range, want);
    const first = rows[0]?.id;
    const last = rows.at(-1)?.id;
    const batch = { rows: rows.map(entryText), low: this.#high + 1n, span: undefined };
    if (reached !== undefined) return { ...batch, low: reached + 1n };
    if (rows.length < want || first === undefined || last === undefined) return batch;
    return { ...batch, low: last + 1n, span: (last - first + 1n) * 10n };
  }

  /** Fetches the matches of a stretch. */
  async #gather(connection: PlacedConnection, span: bigint): Promise<Batch> {
    const end = this.#low + span - 1n;
    const range = { low: this.#low, high: end < this.#high ? end : this.#high, descending: false };
    const found = await connection.query<{ readonly entry: string }>(this.#gatherSql(range, connection.holds));
    const rows = found.map(({ entry }) => entry);
    const last = rows.at(-1);
    if (last === undefined) return { rows, low: range.high + 1n, span: undefined };
    if (rows.length >= this.#rowsMax) {
      return { rows, low: BigInt(last.slice(0, last.indexOf(" "))) + 1n, span: span / 4n + 1n };
    }
    const factor = Math.min(4, Math.max(0.25, this.#batchRows / rows.length));
    return { rows, low: range.high + 1n, span: (span * BigInt(Math.round(factor * 64))) / 64n + 1n };
  }

  #gatherSql(range: IdRange, holds: string): string {
    const ids = (table: string) => `${table}id >= ${range.low} AND ${table}id <= ${range.high}`;
    const entry = `CONCAT_WS(' ', ${textColumns.map((name) => `e.${name}`).join(", ")}) AS entry`;
    const end = `LIMIT ${this.#rowsMax}`;
    if (this.#selection.kind === "all") {
      return `SELECT ${entry} FROM ledger_entry e FORCE INDEX (PRIMARY)
        WHERE ${holds} AND ${ids("e.")} ORDER BY e.id ${end}`;
    }
    const keys = gatherParts(this.#selection.branches, [...this.#own]).map((part) => `${part} AND ${ids("")}`);
    return `SELECT STRAIGHT_JOIN ${entry} FROM (${keys.join(" UNION ALL ")}) AS k
      JOIN ledger_entry AS e ON e.id = k.id WHERE ${holds} ORDER BY k.id ${end}`;
  }
}

/** A batch, and what is read after it. */
interface Batch {
  readonly rows: readonly EntryText[];
  readonly low: bigint;
  readonly span: bigint | undefined;
}

function entryText(row: EntryRow): EntryText {
  const { id, from_account, to_account, class_id, time_ns, quantity, from_balance, to_balance } = row;
  return [id, from_account, to_account, class_id, time_ns, quantity, from_balance, to_balance].join(" ");
}

/** Disjoint selections of ids: what is in a `from` branch too is left out of the `to` branches. */
function gatherParts(branches: readonly Branch[], own: readonly number[]): string[] {
  return (["class", "from", "to"] as const).flatMap((index) => {
    const those = branches.filter((branch) => branch.index === index);
    if (those.length === 0) return [];
    const classes = [...new Set(those.map(({ classId }) => classId))].join(",");
    const accounts = [...new Set(those.map(({ accountId }) => accountId))].join(",");
    const account = index === "class" ? "" : ` AND ${index}_account IN (${accounts})`;
    const once = index === "to" ? ` AND from_account NOT IN (${own.join(",")})` : "";
    return [
      `SELECT id FROM ledger_entry FORCE INDEX (ledger_entry_${index}) WHERE class_id IN (${classes})${account}${once}`,
    ];
  });
}
