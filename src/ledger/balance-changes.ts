import { firstIdOfBlock, positionBits } from "../domain/block-position.js";
import type { TimeRange } from "../domain/date-range.js";
import { cursorName, type Found, findPage, type Page, type PageRequest } from "../domain/page.js";
import type { Call } from "../domain/service.js";
import { checkCursor } from "../store/connection/store-place.js";
import { type IdRange, idMax } from "../store/id-range.js";
import { type Account, type AccountDirectory, covers } from "./account-directory.js";
import { readBalances } from "./balances.js";
import { type EntryText, parseEntry } from "./entry-row.js";
import type { LedgerReader } from "./ledger-reader.js";
import type { LedgerView } from "./ledger-view.js";
import { type ScanState, scanEntries } from "./scan-entries.js";
import { type AccountSide, accountSelector, type LedgerSelection, selectEntries } from "./selection.js";

/** The place of a change: by block, then by account. */
export interface BalancePlace {
  readonly height: bigint;
  readonly account: number;
}

/** What an account holds at the end of a block, where that is something else than before. */
export interface BalanceChange extends BalancePlace {
  /** Block time in Unix nanoseconds, decimal text like the balance. */
  readonly timeNs: string;
  readonly balance: string;
}

/** Ledger entries that a page examines at most, unless they are of one block. Then it is short, with a cursor. */
export const entriesFoldedMax = 65_536;

const entriesAtOnceMin = 64;

/** Entries that are folded in one piece, unless a page of changes needs more: some 20 ms. */
export const entriesAtOnceMax = 8_192;

const accountMax = 0xffff_ffff;

/**
 * One page of the balances that changed, of the accounts that a filter selects.
 * @param examinedMax replaced by tests
 * @throws Failure `failed_precondition` if the range or the cursor reaches before the entries that are kept
 */
export async function readBalanceChanges(
  ledger: LedgerReader,
  side: AccountSide | undefined,
  time: TimeRange,
  request: PageRequest<BalancePlace>,
  call: Call,
  examinedMax = entriesFoldedMax,
): Promise<Page<BalanceChange & { readonly of: Account }, BalancePlace>> {
  const { result, extent, directory } = await ledger.read(call, time, async (view, accounts) => {
    const reach = await view.reach();
    if (!covers(accounts.extent, reach)) return { rows: [], hasNext: false, hasPrevious: false };
    const { cursor } = request;
    if (cursor !== undefined) {
      checkCursor(firstIdOfBlock(cursor.height), reach.newestBlock);
      view.requireKept(firstIdOfBlock(cursor.height), cursorName(request));
    }
    const hasRange = time.startNs !== undefined || time.endNs !== undefined;
    if (hasRange && reach.start !== undefined) view.requireKept(reach.start, "date_range.start_timestamp");
    const fold = new BalanceFold(view, accounts, side, examinedMax);
    return await findPage(request, isAt, (descending, want) => fold.scan(cursor, descending, want));
  });
  const rows = result.rows.map((row) => ({ ...row, of: directory.account(row.account) }));
  return { ...result, rows, newestBlock: extent.newestBlock };
}

function isAt(change: BalanceChange, cursor: BalancePlace): boolean {
  return comparePlaces(change, cursor) === 0;
}

function comparePlaces(a: BalancePlace, b: BalancePlace): number {
  if (a.height !== b.height) return a.height < b.height ? -1 : 1;
  return a.account - b.account;
}

/** A block, as far as its entries were read. */
interface OpenBlock {
  readonly height: bigint;
  readonly timeNs: string;
  /** By account: that of its last entry in the block so far. */
  readonly balances: Map<number, string>;
}

/** Folds ledger entries to balances at the ends of blocks. */
class BalanceFold {
  readonly #view: LedgerView;
  readonly #directory: AccountDirectory;
  readonly #selects: (account: Account) => boolean;
  readonly #selection: LedgerSelection;

  constructor(
    view: LedgerView,
    directory: AccountDirectory,
    side: AccountSide | undefined,
    private readonly examinedMax: number,
  ) {
    this.#view = view;
    this.#directory = directory;
    this.#selects = accountSelector(side);
    this.#selection = selectEntries(directory, { from: side, to: side, closed: false, transferTypes: [] });
  }

  /** Up to `want` changes from a place on, inclusive. */
  async scan(
    from: BalancePlace | undefined,
    descending: boolean,
    want: number,
  ): Promise<Found<BalanceChange, BalancePlace>> {
    const direction = descending ? -1 : 1;
    const rows: BalanceChange[] = [];
    const last = new Map<number, string>();
    let state: ScanState = { rest: rangeFrom(from, descending) };
    let open: OpenBlock | undefined;
    let examined = 0;
    for (let entries = Math.max(entriesAtOnceMin, 2 * want); ; entries = nextEntries(entries)) {
      const scanned = await scanEntries(this.#view, this.#selection, state, entries);
      state = scanned.state;
      examined += scanned.rows.length;
      const isEnd = state.rest.low > state.rest.high;
      const blocks = this.#blocksOf(scanned.rows, open, descending);
      const next = (descending ? state.rest.high : state.rest.low) >> positionBits;
      open = isEnd || blocks.at(-1)?.height !== next ? undefined : blocks.pop();
      const balances = balancesOf(blocks, descending, descending ? new Map(open?.balances) : last);
      const pending = balances.filter((one) => from === undefined || comparePlaces(one, from) * direction >= 0);
      while (rows.length < want && pending.length > 0) {
        rows.push(...(await this.#changes(pending.splice(0, want - rows.length))));
      }
      if (isEnd || rows.length >= want) return { rows };
      const reached = reachedBy(state.rest);
      const hasMoved = from === undefined || comparePlaces(reached, from) * direction > 0;
      // A scan that gives fewer entries has reached a bound of its own.
      if (hasMoved && (examined >= this.examinedMax || scanned.rows.length < entries)) return { rows, reached };
    }
  }

  /** The blocks of entries, in their direction; the first goes on from `open`, and the last may go on. */
  #blocksOf(entries: readonly EntryText[], open: OpenBlock | undefined, descending: boolean): OpenBlock[] {
    const blocks = open === undefined ? [] : [open];
    for (const text of entries) {
      const { id, timeNs, from, fromBalance, to, toBalance } = parseEntry(text);
      const height = BigInt(id) >> positionBits;
      let block = blocks.at(-1);
      if (block?.height !== height) {
        block = { height, timeNs, balances: new Map() };
        blocks.push(block);
      }
      // Of an account with itself, what it receives comes last.
      const sides = [[from, fromBalance] as const, [to, toBalance] as const];
      for (const [account, balance] of descending ? sides.reverse() : sides) {
        this.#note(block, account, balance, descending);
      }
    }
    return blocks;
  }

  #note({ balances }: OpenBlock, account: number, balance: string, descending: boolean): void {
    if (descending && balances.has(account)) return;
    if (!this.#selects(this.#directory.account(account))) return;
    balances.set(account, balance);
  }

  /** Those that differ from what the account held before; where that is not known, it is read. */
  async #changes(balances: readonly BalanceAt[]): Promise<BalanceChange[]> {
    const unknown = balances.filter(({ before }) => before === undefined);
    const requests = unknown.map(({ account, height }) => ({
      account: this.#directory.account(account),
      before: firstIdOfBlock(height),
    }));
    const read = await readBalances(this.#view, this.#directory, requests);
    // What was dropped may have been anything.
    return balances.filter(({ account, balance, before }) => (before ?? read.get(account)) !== balance);
  }
}

/** What an account holds at the end of a block, and before it; undefined: not known yet. */
interface BalanceAt extends BalanceChange {
  readonly before: string | undefined;
}

/**
 * The balances at the ends of blocks, in the direction of the scan. `known`: what accounts held before the oldest of them;
 * afterwards it has what they held at the end. So only the oldest one of an account is without a balance before.
 */
function balancesOf(blocks: readonly OpenBlock[], descending: boolean, known: Map<number, string>): BalanceAt[] {
  const balances: BalanceAt[] = [];
  for (const { height, timeNs, balances: ofBlock } of descending ? blocks.toReversed() : blocks) {
    for (const [account, balance] of [...ofBlock].sort(([a], [b]) => a - b)) {
      balances.push({ height, account, timeNs, balance, before: known.get(account) });
      known.set(account, balance);
    }
  }
  return descending ? balances.reverse() : balances;
}

/** Entries of the next piece: twice as many, as far as they are folded in one. */
function nextEntries(entries: number): number {
  return Math.max(entries, Math.min(2 * entries, entriesAtOnceMax));
}

/** The ids of all blocks from that of a place on: what an account holds at its end, all of its entries tell. */
function rangeFrom(from: BalancePlace | undefined, descending: boolean): IdRange {
  if (from === undefined) return { low: 0n, high: idMax, descending };
  if (descending) return { low: 0n, high: firstIdOfBlock(from.height + 1n) - 1n, descending };
  return { low: firstIdOfBlock(from.height), high: idMax, descending };
}

/** The last place of the last block that was examined whole. */
function reachedBy({ low, high, descending }: IdRange): BalancePlace {
  if (descending) return { height: (high >> positionBits) + 1n, account: 0 };
  return { height: (low >> positionBits) - 1n, account: accountMax };
}
