import type { Account, BalanceChange, LedgerEntry } from "../service/messages.js";

/** What tells an account from others. */
export type AccountName = Omit<Account, "balance">;

function keyOf({ owner, asset, marketId, type }: AccountName): string {
  return JSON.stringify([owner, asset, marketId, type]);
}

export function accountOf({ partyId, assetId, marketId = "", accountType }: BalanceChange): AccountName {
  return { owner: partyId, asset: assetId, marketId, type: accountType };
}

/** An account and its balances at several times. */
export interface BalanceRow {
  readonly account: AccountName;
  /** One for each time; an account that was not named yet had 0. */
  readonly balances: readonly bigint[];
}

/** The accounts of several lists, one list for each time, in the order of the list that names them first. */
export function balanceRows(times: readonly (readonly Account[])[]): BalanceRow[] {
  const balances = times.map((accounts) => new Map(accounts.map((each) => [keyOf(each), BigInt(each.balance)])));
  const accounts = new Map(times.flat().map((each) => [keyOf(each), each]));
  return [...accounts].map(([key, account]) => ({ account, balances: balances.map((of) => of.get(key) ?? 0n) }));
}

/** What accounts of one asset hold together from a moment on, in its smallest unit. */
export interface BalanceStep {
  readonly timestamp: string;
  readonly total: bigint;
}

/** The history of accounts of one asset. */
export interface BalanceHistory {
  /** What they held together before the first step. */
  readonly first: bigint;
  /** One for each block that changed a balance, oldest first. */
  readonly steps: readonly BalanceStep[];
  /** By how much each change moved its account, in the order of the changes. */
  readonly moves: readonly bigint[];
}

/**
 * Adds changes up.
 * @param start the accounts before the first change; those that are not among them held nothing
 * @param changes oldest first
 */
export function balanceHistory(start: readonly Account[], changes: readonly BalanceChange[]): BalanceHistory {
  const held = new Map(start.map((account) => [keyOf(account), BigInt(account.balance)]));
  const first = [...held.values()].reduce((sum, each) => sum + each, 0n);
  const steps: BalanceStep[] = [];
  let total = first;
  const moves = changes.map((change) => {
    const key = keyOf(accountOf(change));
    const moved = BigInt(change.balance) - (held.get(key) ?? 0n);
    held.set(key, BigInt(change.balance));
    total += moved;
    if (steps.at(-1)?.timestamp === change.timestamp) steps.pop();
    steps.push({ timestamp: change.timestamp, total });
    return moved;
  });
  return { first, steps, moves };
}

/** What entries of one type moved, in the asset's smallest unit. */
export interface Moved {
  readonly type: string;
  readonly entries: number;
  /** Into the accounts, out of them, and from one of them to another. */
  readonly into: bigint;
  readonly outOf: bigint;
  readonly between: bigint;
  /** Into less out of those of the accounts whose balance is what their entries moved: all but external ones. */
  readonly gain: bigint;
}

/** Whether an account's balances add up. The network states whatever it likes of external ones, which are without end. */
export function addsUp(type: string): boolean {
  return type !== "ACCOUNT_TYPE_EXTERNAL";
}

/** Adds what entries moved of the accounts of a filter to sums by type. */
export function addMoved(sums: Map<string, Moved>, filter: URLSearchParams, entries: readonly LedgerEntry[]): void {
  const has = (name: string, value = "") => {
    const wanted = filter.getAll(`filter.${name}`).filter((text) => text !== "");
    return wanted.length === 0 || wanted.includes(value);
  };
  const isOwn = (partyId: string, marketId: string | undefined, type: string) =>
    has("partyIds", partyId) && has("marketIds", marketId) && has("accountTypes", type);
  for (const entry of entries) {
    const { transferType: type } = entry;
    const from = isOwn(entry.fromAccountPartyId, entry.fromAccountMarketId, entry.fromAccountType);
    const to = isOwn(entry.toAccountPartyId, entry.toAccountMarketId, entry.toAccountType);
    const sum = sums.get(type) ?? { type, entries: 0, into: 0n, outOf: 0n, between: 0n, gain: 0n };
    const side = from && to ? "between" : to ? "into" : "outOf";
    const quantity = BigInt(entry.quantity);
    const gained =
      (to && addsUp(entry.toAccountType) ? quantity : 0n) - (from && addsUp(entry.fromAccountType) ? quantity : 0n);
    sums.set(type, { ...sum, entries: sum.entries + 1, [side]: sum[side] + quantity, gain: sum.gain + gained });
  }
}

/** Orders the types that moved most first. */
export function mostMoved(a: Moved, b: Moved): number {
  return descending(a.into + a.outOf, b.into + b.outOf) || descending(a.between, b.between);
}

function descending(a: bigint, b: bigint): number {
  return Number(b > a) - Number(b < a);
}
