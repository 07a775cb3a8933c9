import { firstIdOfBlock } from "../domain/block-position.js";
import type { TimeRange } from "../domain/date-range.js";
import type { Page, PageRequest } from "../domain/page.js";
import type { Call } from "../domain/service.js";
import type { WorkClass } from "../store/connection/fair-queue.js";
import { type BlockPlace, ReadBehindError, type StorePlace } from "../store/connection/store-place.js";
import type { Database } from "../store/database.js";
import type { Log } from "../telemetry/log.js";
import { type Account, AccountDirectory, covers, type EntryClass } from "./account-directory.js";
import { type EntryText, idOf, parseEntry } from "./entry-row.js";
import { type IdRange, idMax } from "./id-range.js";
import { PlanCounts } from "./ledger-metrics.js";
import { always, type LedgerExtent, LedgerView, unknownLedger } from "./ledger-view.js";
import { StatisticsMemory } from "./page-statistics.js";
import { type ScannedEntries, scanEntries } from "./scan-entries.js";
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
      const page = await readPage(request, async (range, want) => {
        const known = this.#statistics.recall(filter, view.clip(range), want);
        const scanned = await scanEntries(view, selection, { rest: range, known }, want);
        this.#statistics.note(filter, range, want, view, scanned);
        return scanned;
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

/** The field that has the cursor of a page. */
export function cursorName({ backwards }: PageRequest<unknown>): string {
  return backwards ? "pagination.before" : "pagination.after";
}

/** Connections that are tried where a cursor lies beyond the newest block: another process may have read that. */
const cursorAttemptsMax = 3;

/** @throws ReadBehindError for a cursor of a block that is not there */
export function checkCursor(cursor: bigint | undefined, newest: BlockPlace | undefined): void {
  if (cursor === undefined || newest === undefined || cursor < firstIdOfBlock(newest.height + 1n)) return;
  throw new ReadBehindError("the cursor lies beyond the newest block", cursorAttemptsMax);
}

/**
 * Reads from the cursor in the direction of the page, including the cursor's own position. If a row is there, as usual,
 * the other side is not empty, and no second scan is needed.
 */
async function readPage(
  { cursor, size, backwards, newestFirst }: PageRequest<bigint>,
  scan: (range: IdRange, want: number) => Promise<ScannedEntries>,
): Promise<Omit<Page<EntryText, bigint>, "newestBlock">> {
  const descending = newestFirst !== backwards;
  const low = descending ? 0n : (cursor ?? 0n);
  const high = descending ? (cursor ?? idMax) : idMax;
  // The page, one more row to tell whether it is the last, and the row at the cursor.
  const { rows: found, state } = await scan({ low, high, descending }, size + (cursor === undefined ? 1 : 2));
  const isCut = state.rest.low <= state.rest.high;
  const atCursor = cursor !== undefined && found[0] !== undefined && idOf(found[0]) === cursor;
  const after = atCursor ? found.slice(1) : found;
  const rows = after.slice(0, size);
  const more = after.length > size || isCut;
  const behind = atCursor || (cursor !== undefined && (await isAnyBehind(cursor, descending, scan)));
  const reached = descending ? state.rest.high + 1n : state.rest.low - 1n;
  const early = after.length <= size && isCut ? { reached } : {};
  return backwards
    ? { rows: rows.reverse(), hasNext: behind, hasPrevious: more, ...early }
    : { rows, hasNext: more, hasPrevious: behind, ...early };
}

async function isAnyBehind(
  cursor: bigint,
  descending: boolean,
  scan: (range: IdRange, want: number) => Promise<ScannedEntries>,
): Promise<boolean> {
  const range = descending ? { low: cursor, high: idMax } : { low: 0n, high: cursor };
  const { rows, state } = await scan({ ...range, descending: !descending }, 1);
  return rows.length > 0 || state.rest.low <= state.rest.high;
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
