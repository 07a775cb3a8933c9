import type { TimeRange } from "../domain/date-range.js";
import type { Account, AccountDirectory } from "./account-directory.js";
import type { LedgerReader, LedgerView } from "./ledger-entry-query.js";
import { type EntryRow, scanEntries } from "./ledger-scan.js";
import { type LedgerSelection, selectEntries } from "./ledger-selection.js";

/** Entries that one query of an export fetches at most. */
export const exportBatchRows = 4_096;

/** What is exported. */
export interface ExportSubject {
  readonly partyId: string;
  readonly assetId: string;
  readonly time: TimeRange;
}

/**
 * The entries of one party and asset, oldest first, up to the newest block when it was opened: the ledger only grows,
 * so that is a consistent view without a transaction. Holds a connection only while a batch is read.
 */
export class LedgerExport {
  readonly newestBlock: LedgerView["newestBlock"];
  readonly #ledger: LedgerReader;
  readonly #directory: AccountDirectory;
  readonly #selection: LedgerSelection;
  readonly #own: ReadonlySet<number>;
  readonly #high: bigint;
  #low: bigint;

  constructor(ledger: LedgerReader, view: LedgerView, subject: ExportSubject) {
    const { partyId, assetId } = subject;
    const side = { partyId, assetId, marketIds: [], types: [] };
    this.#ledger = ledger;
    this.#directory = view.directory;
    this.newestBlock = view.newestBlock;
    this.#selection = selectEntries(view.directory, { from: side, to: side, closed: false, transferTypes: [] });
    const own = view.directory.accountsOf(partyId).filter(({ kind }) => kind.assetId === assetId);
    this.#own = new Set(own.map(({ id }) => id));
    this.#low = view.ids?.low ?? 1n;
    this.#high = view.ids?.high ?? 0n;
  }

  /** @throws Failure */
  static async open(ledger: LedgerReader, subject: ExportSubject, signal?: AbortSignal): Promise<LedgerExport> {
    const view = await ledger.borrow(signal, (connection) => ledger.view(connection, subject.time));
    return new LedgerExport(ledger, view, subject);
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
  async next(signal?: AbortSignal): Promise<readonly EntryRow[]> {
    while (this.#low <= this.#high) {
      const range = { low: this.#low, high: this.#high, descending: false };
      const { rows, reached } = await this.#ledger.borrow(signal, (connection) =>
        scanEntries(connection, this.#selection, range, exportBatchRows),
      );
      const last = rows.at(-1)?.id;
      if (reached !== undefined) this.#low = reached + 1n;
      else if (rows.length === exportBatchRows && last !== undefined) this.#low = last + 1n;
      else this.#low = this.#high + 1n;
      if (rows.length > 0) return rows;
    }
    return [];
  }
}
