import { add, type Integer } from "../domain/exact-integer.js";
import type { Accounts } from "./accounts.js";

/**
 * Checks the balances that entries state: each must follow from the previous one and the quantity. The external account
 * stands for the outside world: its transfers enter or leave the network, and it may state 0 instead of a balance.
 */
export class Balances {
  /** The last stated balance of each account; undefined: none yet. */
  #stated: (Integer | undefined)[] = [];
  readonly #appeared = new Map<string, bigint>();

  constructor(private readonly accounts: Accounts) {}

  /** The effect of an entry on one account. @returns the error of the stated balance; undefined if it is right */
  leg(account: number, change: Integer, stated: Integer): bigint | undefined {
    const before = this.#stated[account];
    this.#stated[account] = stated;
    if (before === undefined) return undefined;
    const expected = add(before, change);
    if (expected === stated) return undefined;
    if (this.accounts.isExternal(account) && stated === 0) return undefined;
    const difference = BigInt(stated) - BigInt(expected);
    const asset = this.accounts.assetOf(account);
    this.#appeared.set(asset, (this.#appeared.get(asset) ?? 0n) + difference);
    return difference;
  }

  /** Entries were dropped on purpose: the next balance of each account counts as its first. */
  forget(): void {
    this.#stated = [];
  }

  /** The amount of each asset that appeared without an entry; below 0 if it vanished. Zero sums are omitted. */
  appeared(): [asset: string, amount: bigint][] {
    return [...this.#appeared].filter(([, amount]) => amount !== 0n);
  }
}
