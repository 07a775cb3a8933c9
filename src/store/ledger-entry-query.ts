import { firstIdOfBlock } from "../domain/block-position.js";
import type { TimeRange } from "../domain/date-range.js";
import type { Page, PageRequest } from "../domain/page.js";
import type { Call } from "../domain/service.js";
import { type Account, AccountDirectory, type EntryClass } from "./account-directory.js";
import { ledgerQueryTimeoutMs } from "./bounded-query.js";
import type { EntryRow, IdRange } from "./branch-merge.js";
import type { Database } from "./database.js";
import { ReadBehindError } from "./known-place.js";
import { LedgerMemory, rememberedFiltersMax, type WalkStep } from "./ledger-memory.js";
import { scanEntries, walkStepOf } from "./ledger-scan.js";
import { type LedgerFilter, selectEntries } from "./ledger-selection.js";
import { type BlockPlace, type PlacedConnection, parsePlace, placeSql, withPlacedConnection } from "./placed-read.js";

/** A ledger entry with what its numbers stand for. */
export interface LedgerEntry {
  /** Its place. */
  readonly id: bigint;
  /** Block time in Unix nanoseconds. */
  readonly timeNs: bigint;
  /** Decimal text. */
  readonly quantity: string;
  readonly entryClass: EntryClass;
  readonly from: Account;
  readonly to: Account;
  readonly fromBalance: string;
  readonly toBalance: string;
}

/** What a request sees of a growing ledger: everything up to an entry, and what the numbers in it stand for. */
export interface LedgerView {
  readonly directory: AccountDirectory;
  readonly memory: LedgerMemory;
  /** The ids of the time range up to the newest entry; undefined: there are none. */
  readonly ids: { readonly low: bigint; readonly high: bigint } | undefined;
  /** The step that was asked for, as far as this view reaches. */
  readonly step: WalkStep | undefined;
  /** Of the newest block; undefined: there is none yet. What is read by this view depends on it. */
  readonly newestBlock: BlockPlace | undefined;
}

/** A step along the table, from an id, or from the end at which the direction begins. */
interface StepAhead {
  readonly from: bigint | undefined;
  readonly descending: boolean;
  readonly entries: number;
}

interface ExtentRow {
  readonly newest: bigint | null;
  readonly account_max: number | bigint | null;
  readonly class_max: number | bigint | null;
  readonly place: string | null;
  readonly start_height: bigint | null;
  readonly end_height: bigint | null;
  readonly step_end: bigint | null;
}

/** How a {@link LedgerReader} behaves. */
export interface LedgerReaderOptions {
  readonly queryTimeoutMs?: number;
  /** Filters of which it is remembered what their pages took; none: every page is looked for as if it were the first. */
  readonly rememberedFiltersMax?: number;
}

/** Reads the ledger. One per process: it keeps the directory of accounts. */
export class LedgerReader {
  readonly database: Database;
  readonly queryTimeoutMs: number;
  readonly #filtersMax: number;
  #store: StoreMemory;

  constructor(database: Database, options: LedgerReaderOptions = {}) {
    this.database = database;
    this.queryTimeoutMs = options.queryTimeoutMs ?? ledgerQueryTimeoutMs;
    this.#filtersMax = options.rememberedFiltersMax ?? rememberedFiltersMax;
    this.#store = this.#memoryOf("");
  }

  /** Fetches the accounts before the first request needs them. */
  async warm(): Promise<void> {
    await this.borrow(undefined, (connection) => this.view(connection, { startNs: undefined, endNs: undefined }));
  }

  /** Lends a connection for at most `queryTimeoutMs`, and until the call is aborted. `use` may run more than once. */
  borrow<T>(call: Call | undefined, use: (connection: PlacedConnection) => Promise<T>, further = false): Promise<T> {
    return withPlacedConnection(this.database, { call, further }, this.queryTimeoutMs, use);
  }

  /**
   * What there is now. One statement sees it, so every entry up to the newest names only accounts that are known.
   * @throws ReadBehindError when this process has seen more
   */
  async view(connection: PlacedConnection, time: TimeRange, ahead?: StepAhead): Promise<LedgerView> {
    const firstBlockFrom = "(SELECT height FROM block WHERE time_ns >= ? ORDER BY time_ns, height LIMIT 1)";
    const [row] = await connection.query<ExtentRow>(
      `SELECT (SELECT MAX(id) FROM ledger_entry) AS newest, (SELECT MAX(account_id) FROM account) AS account_max,
       (SELECT MAX(class_id) FROM entry_class) AS class_max,
       ${placeSql} AS place,
       ${time.startNs === undefined ? "NULL" : firstBlockFrom} AS start_height,
       ${time.endNs === undefined ? "NULL" : firstBlockFrom} AS end_height,
       ${ahead === undefined ? "NULL" : stepSql(ahead)} AS step_end`,
      [time.startNs, time.endNs].filter((value) => value !== undefined),
    );
    if (row === undefined) throw new Error("a query without a table gave no row");
    const newestBlock = parsePlace(row.place);
    this.database.knownPlace.found(newestBlock);
    if (newestBlock !== undefined) connection.dependOn(newestBlock, true);
    const storeId = newestBlock?.storeId ?? "";
    if (storeId !== this.#store.storeId) this.#store = this.#memoryOf(storeId);
    const { directory, memory } = this.#store;
    await directory.refresh(connection, {
      accountMax: Number(row.account_max ?? 0),
      classMax: Number(row.class_max ?? 0),
    });
    const step = ahead && { entries: ahead.entries, end: row.step_end ?? undefined };
    return { directory, memory, ids: idsOf(row, time), step, newestBlock };
  }

  #memoryOf(storeId: string): StoreMemory {
    return { storeId, directory: new AccountDirectory(), memory: new LedgerMemory(this.#filtersMax) };
  }

  /** One page of the entries that a filter selects, in the order of the list. */
  page(
    filter: LedgerFilter,
    time: TimeRange,
    request: PageRequest<bigint>,
    call?: Call,
  ): Promise<Page<LedgerEntry, bigint>> {
    return this.borrow(call, async (connection) => {
      const remembered = this.#store.memory.of(filter);
      const isAlways = time.startNs === undefined && time.endNs === undefined;
      const entries = isAlways ? walkStepOf(remembered, wantOf(request)) : undefined;
      const descending = request.newestFirst !== request.backwards;
      const ahead = entries === undefined ? undefined : { from: request.cursor, descending, entries };
      const { directory, memory: ledgerMemory, ids, step, newestBlock } = await this.view(connection, time, ahead);
      checkCursor(request.cursor, newestBlock);
      const memory = ledgerMemory.of(filter);
      if (ids === undefined) return { rows: [], hasNext: false, hasPrevious: false, newestBlock };
      const selection = selectEntries(directory, filter);
      const scan = async (range: IdRange, want: number) => {
        if (range.low > range.high) return { rows: [], reached: undefined };
        // What lies behind the cursor is looked for the other way.
        const known = range.descending === descending ? step : undefined;
        const { rows, reached } = await scanEntries(connection, selection, range, want, memory, known);
        return { rows: rows.map((row) => resolve(directory, row)), reached };
      };
      return { ...(await readPage(ids, request, scan)), newestBlock };
    });
  }
}

/** What a process remembers of one store. Requests that began with it go on with it. */
interface StoreMemory {
  readonly storeId: string;
  readonly directory: AccountDirectory;
  readonly memory: LedgerMemory;
}

/** Connections that are tried where a cursor lies beyond the newest block: another process may have read that. */
const cursorAttemptsMax = 3;

/** @throws ReadBehindError for a cursor of a block that is not there */
function checkCursor(cursor: bigint | undefined, newest: BlockPlace | undefined): void {
  if (cursor === undefined || newest === undefined || cursor < firstIdOfBlock(newest.height + 1n)) return;
  throw new ReadBehindError("the cursor lies beyond the newest block", cursorAttemptsMax);
}

type Scan = (
  range: IdRange,
  want: number,
) => Promise<{ readonly rows: readonly LedgerEntry[]; readonly reached: bigint | undefined }>;

/**
 * Walks from the cursor in the direction of the page. The cursor's own place is read too: where a row is there, as
 * nearly always, something lies on the other side, and that needs no second query.
 */
async function readPage(
  ids: { readonly low: bigint; readonly high: bigint },
  request: PageRequest<bigint>,
  scan: Scan,
): Promise<Omit<Page<LedgerEntry, bigint>, "newestBlock">> {
  const { cursor, size, backwards, newestFirst } = request;
  const descending = newestFirst !== backwards;
  const low = cursor !== undefined && !descending && cursor > ids.low ? cursor : ids.low;
  const high = cursor !== undefined && descending && cursor < ids.high ? cursor : ids.high;
  const found = await scan({ low, high, descending }, wantOf(request));
  const atCursor = cursor !== undefined && found.rows[0]?.id === cursor;
  const beyond = atCursor ? found.rows.slice(1) : found.rows;
  const rows = beyond.slice(0, size);
  const more = beyond.length > size || found.reached !== undefined;
  const behind = atCursor || (cursor !== undefined && (await anyBehind(ids, cursor, descending, scan)));
  const early = beyond.length <= size && found.reached !== undefined ? { reached: found.reached } : {};
  return backwards
    ? { rows: rows.reverse(), hasNext: behind, hasPrevious: more, ...early }
    : { rows, hasNext: more, hasPrevious: behind, ...early };
}

/** The page, one more to tell whether it is the last, and what is at the cursor. */
function wantOf({ size, cursor }: PageRequest<bigint>): number {
  return size + 1 + (cursor === undefined ? 0 : 1);
}

function stepSql({ from, descending, entries }: StepAhead): string {
  const where = from === undefined ? "" : `WHERE id ${descending ? "<=" : ">="} ${from}`;
  const order = descending ? "DESC" : "ASC";
  return `(SELECT id FROM ledger_entry FORCE INDEX (PRIMARY) ${where} ORDER BY id ${order} LIMIT 1 OFFSET ${entries})`;
}

async function anyBehind(
  ids: { readonly low: bigint; readonly high: bigint },
  cursor: bigint,
  descending: boolean,
  scan: Scan,
): Promise<boolean> {
  const range = descending
    ? { low: cursor > ids.low ? cursor : ids.low, high: ids.high, descending: false }
    : { low: ids.low, high: cursor < ids.high ? cursor : ids.high, descending: true };
  const { rows, reached } = await scan(range, 1);
  return rows.length > 0 || reached !== undefined;
}

function idsOf(row: ExtentRow, time: TimeRange): LedgerView["ids"] {
  if (row.newest === null) return undefined;
  if (time.startNs !== undefined && row.start_height === null) return undefined;
  const low = row.start_height === null ? 0n : firstIdOfBlock(row.start_height);
  const end = row.end_height === null ? undefined : firstIdOfBlock(row.end_height) - 1n;
  const high = end !== undefined && end < row.newest ? end : row.newest;
  return low > high ? undefined : { low, high };
}

function resolve(directory: AccountDirectory, row: EntryRow): LedgerEntry {
  return {
    id: row.id,
    timeNs: row.time_ns,
    quantity: row.quantity,
    entryClass: directory.entryClass(row.class_id),
    from: directory.account(row.from_account),
    to: directory.account(row.to_account),
    fromBalance: row.from_balance,
    toBalance: row.to_balance,
  };
}
