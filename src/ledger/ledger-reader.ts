import { always, type TimeRange } from "../domain/date-range.js";
import { cursorName, findPage, type Page, type PageRequest } from "../domain/page.js";
import type { Call } from "../domain/service.js";
import type { WorkClass } from "../store/connection/fair-queue.js";
import { type BlockPlace, checkCursor, type StorePlace } from "../store/connection/store-place.js";
import type { Database } from "../store/database.js";
import { type IdRange, idMax } from "../store/id-range.js";
import type { Log } from "../telemetry/log.js";
import { type Account, AccountDirectory, covers, type EntryClass } from "./account-directory.js";
import { type EntryText, idOf, parseEntry } from "./entry-row.js";
import { PlanCounts } from "./ledger-metrics.js";
import { type LedgerExtent, LedgerView, unknownLedger } from "./ledger-view.js";
import { StatisticsMemory } from "./page-statistics.js";
import { type ScanState, scanEntries } from "./scan-entries.js";
import { type LedgerFilter, selectEntries } from "./selection.js";

/** A ledger entry with its accounts and class. */
export interface LedgerEntry {
  /** Its id. */
  readonly id: bigint;
  /** Block time in Unix nanoseconds; decimal text, like all other numbers here. */
  readonly timeNs: string;
  readonly quantity: string;
  readonly entryClass: EntryClass;
  readonly from: Account;
  readonly to: Account;
  readonly fromBalance: string;
  readonly toBalance: string;
}

/** The result of a read, its view, and the accounts that its entries refer to. */
export interface LedgerRead<T> {
  readonly result: T;
  readonly extent: LedgerExtent;
  readonly directory: AccountDirectory;
}

/** Reads the ledger. One per process: it keeps the directory of accounts. */
export class LedgerReader {
  readonly counts = new PlanCounts();
  readonly #database: Pick<Database, "lease">;
  readonly #log: Log | undefined;
  readonly #statistics = new StatisticsMemory();
  #store = { id: "", directory: new AccountDirectory() };
  #known = unknownLedger;

  /** `log` receives a line for each page and batch, at level `debug`. */
  constructor(database: Pick<Database, "lease">, { log }: { readonly log?: Log } = {}) {
    this.#database = database;
    this.#log = log;
  }

  /** Fetches the accounts and counts the entries of a small ledger, before the first request. */
  async warm(): Promise<void> {
    await this.read(undefined, always, (view) => view.smallSize());
  }

  /**
   * Reads with the accounts that are known, so that a request can do with one statement. That statement also tells
   * whether there are more by now; if so, they are fetched, and `use` runs once more, on the same view. So it does when
   * a statement tells that older entries have been dropped: then all rows come from statements that saw all of their
   * blocks. A time range takes a statement more: where in the list it begins must be known before it can be scanned.
   */
  read<T>(
    call: Call | undefined,
    time: TimeRange,
    use: (view: LedgerView, directory: AccountDirectory) => Promise<T>,
    workClass: WorkClass = "ledger",
  ): Promise<LedgerRead<T>> {
    return this.#database.lease({ class: workClass, call }, async (reader) => {
      const view = new LedgerView(reader, this.#known, time);
      if (time.startNs !== undefined || time.endNs !== undefined) await view.reach();
      let { directory } = this.#store;
      for (;;) {
        const { extent: known } = directory;
        const { oldest } = view;
        const result = await use(view, directory);
        const extent = await view.reach();
        const current = this.#directoryOf(extent.newestBlock);
        if (current === directory && covers(known, extent) && view.oldest.height === oldest.height) {
          this.#note(view);
          return { result, extent, directory };
        }
        directory = current;
        await directory.refresh(reader, extent);
      }
    });
  }

  /** Continues an export, up to the newest block of the earlier read. */
  readOn<T>(call: Call | undefined, place: StorePlace | undefined, use: (view: LedgerView) => Promise<T>): Promise<T> {
    return this.#database.lease({ class: "export", call, place }, async (reader) => {
      const view = new LedgerView(reader, this.#known);
      const result = await use(view);
      this.#note(view);
      return result;
    });
  }

  /** One page of the entries that a filter selects, in list order. */
  async page(
    filter: LedgerFilter,
    time: TimeRange,
    request: PageRequest<bigint>,
    call?: Call,
  ): Promise<Page<LedgerEntry, bigint>> {
    const { result, extent, directory } = await this.read(call, time, async (view, accounts) => {
      const selection = selectEntries(accounts, filter);
      const page = await findPage(request, isAt, async (descending, want) => {
        const range = rangeFrom(request.cursor, descending);
        const known = this.#statistics.recall(filter, view.clip(range), want);
        const scanned = await scanEntries(view, selection, { rest: range, known }, want);
        this.#statistics.note(filter, range, want, view, scanned);
        return { rows: scanned.rows, reached: reachedBy(scanned.state) };
      });
      const { newestBlock, start } = await view.reach();
      checkCursor(request.cursor, newestBlock);
      if (request.cursor !== undefined) view.requireKept(request.cursor, cursorName(request));
      const hasRange = time.startNs !== undefined || time.endNs !== undefined;
      if (hasRange && start !== undefined) view.requireKept(start, "date_range.start_timestamp");
      return page;
    });
    const rows = result.rows.map((row) => resolve(directory, row));
    return { newestBlock: extent.newestBlock, ...result, rows };
  }

  #note({ costs, known }: LedgerView): void {
    this.#known = known;
    this.counts.add(costs);
    this.#log?.debug({ plans: costs }, "ledger entries were read");
  }

  #directoryOf(newest: BlockPlace | undefined): AccountDirectory {
    const id = newest?.storeId ?? "";
    if (id !== this.#store.id) this.#store = { id, directory: new AccountDirectory() };
    return this.#store.directory;
  }
}

/** From the cursor on, inclusive. */
function rangeFrom(cursor: bigint | undefined, descending: boolean): IdRange {
  return descending ? { low: 0n, high: cursor ?? idMax, descending } : { low: cursor ?? 0n, high: idMax, descending };
}

/** The last id that a scan examined, if it ended at the bound on work. */
function reachedBy({ rest: { low, high, descending } }: ScanState): bigint | undefined {
  if (low > high) return undefined;
  return descending ? high + 1n : low - 1n;
}

function isAt(row: EntryText, cursor: bigint): boolean {
  return idOf(row) === cursor;
}

function resolve(directory: AccountDirectory, entry: EntryText): LedgerEntry {
  const row = parseEntry(entry);
  return {
    id: BigInt(row.id),
    timeNs: row.timeNs,
    quantity: row.quantity,
    entryClass: directory.entryClass(row.classId),
    from: directory.account(row.from),
    to: directory.account(row.to),
    fromBalance: row.fromBalance,
    toBalance: row.toBalance,
  };
}
