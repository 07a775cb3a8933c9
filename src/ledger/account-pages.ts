import { type Found, findPage, type Page, type PageRequest } from "../domain/page.js";
import type { Call } from "../domain/service.js";
import { cursorAttemptsMax, ReadBehindError } from "../store/connection/store-place.js";
import { type Account, type AccountDirectory, covers } from "./account-directory.js";
import { balanceNotKept, readBalances } from "./balances.js";
import type { LedgerReader } from "./ledger-reader.js";
import { type AccountSide, accountSelector } from "./selection.js";

/** An account with its balance, decimal text. */
export interface AccountBalance {
  readonly account: Account;
  readonly balance: string;
}

type AccountRows = Omit<Page<AccountBalance, number>, "newestBlock">;

/** Accounts that a page examines at most. Then it is short, with a cursor to go on from. */
export const accountsExaminedMax = 200_000;

/**
 * One page of accounts in the order in which the network first named them, each with its newest balance, or that at the
 * end of the newest block that is not after a time.
 * @throws Failure `failed_precondition` if a balance is not known, because its entry was dropped
 */
export async function readAccountPage(
  ledger: LedgerReader,
  side: AccountSide | undefined,
  asOfNs: bigint | undefined,
  request: PageRequest<number>,
  call: Call,
): Promise<Page<AccountBalance, number>> {
  const time = { startNs: undefined, endNs: asOfNs === undefined ? undefined : asOfNs + 1n };
  const { result, extent } = await ledger.read(call, time, async (view, directory): Promise<AccountRows> => {
    const reach = await view.reach();
    // The accounts that are missing are fetched, and this runs again.
    if (!covers(directory.extent, reach)) return { rows: [], hasNext: false, hasPrevious: false };
    if (request.cursor !== undefined && request.cursor > reach.accountMax) {
      throw new ReadBehindError("the cursor lies beyond the newest account", cursorAttemptsMax);
    }
    const page = await findPage(request, isAt, async (descending, want) => {
      return findAccounts(directory, side, idsFrom(request.cursor, descending, reach.accountMax), want);
    });
    const before = reach.high < reach.low ? 0n : reach.high + 1n;
    const balances = await readBalances(
      view,
      directory,
      page.rows.map((account) => ({ account, before })),
    );
    const rows = page.rows.map((account) => {
      const balance = balances.get(account.id);
      if (balance === undefined) throw balanceNotKept(account);
      return { account, balance };
    });
    return { ...page, rows };
  });
  return { ...result, newestBlock: extent.newestBlock };
}

function isAt({ id }: Account, cursor: number): boolean {
  return id === cursor;
}

/** Account numbers from one on, in the direction of a scan. */
interface AccountRange {
  readonly first: number;
  readonly last: number;
  readonly step: 1 | -1;
}

function idsFrom(from: number | undefined, descending: boolean, accountMax: number): AccountRange {
  if (descending) return { first: Math.min(from ?? accountMax, accountMax), last: 1, step: -1 };
  return { first: Math.max(from ?? 1, 1), last: accountMax, step: 1 };
}

function findAccounts(
  directory: AccountDirectory,
  side: AccountSide | undefined,
  range: AccountRange,
  want: number,
): Found<Account, number> {
  const { first, last, step } = range;
  const selects = accountSelector(side);
  const isAfter = (id: number, than: number) => (id - than) * step > 0;
  if (side?.partyId !== undefined) {
    const ofParty = directory.accountsOf(side.partyId).sort((a, b) => (a.id - b.id) * step);
    const rows = ofParty.filter((account) => !isAfter(first, account.id) && !isAfter(account.id, last));
    return { rows: rows.filter(selects).slice(0, want) };
  }
  const rows: Account[] = [];
  for (let id = first; !isAfter(id, last) && rows.length < want; id += step) {
    if ((id - first) * step >= accountsExaminedMax) return { rows, reached: id - step };
    const account = directory.account(id);
    if (selects(account)) rows.push(account);
  }
  return { rows };
}
