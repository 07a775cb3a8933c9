import type { Accounts } from "./accounts.js";
import { type Amount, add, isSame } from "./amount.js";

/**
 * Follows the balances that entries state. Each follows from the one before and the quantity. The external account is
 * the world outside: what it gives or takes enters or leaves the network, and it may state 0 in place of a balance.
 */
export class Balances {
  readonly #accounts: Accounts;
  /** Of each account the balance that it stated last; undefined: none yet. */
  #stated: (Amount | undefined)[] = [];
  readonly #appeared = new Map<string, bigint>();

  constructor(accounts: Accounts) {
    this.#accounts = accounts;
  }

  /** An entry's effect on one account. @returns by how much the stated balance is off; undefined: it is right */
  leg(account: number, change: Amount, stated: Amount): bigint | undefined {
    const before = this.#stated[account];
    this.#stated[account] = stated;
    if (before === undefined) return undefined;
    const expected = add(before, change);
    if (isSame(expected, stated)) return undefined;
    if (this.#accounts.isExternal(account) && isSame(stated, 0)) return undefined;
    const difference = BigInt(stated) - BigInt(expected);
    const asset = this.#accounts.assetOf(account);
    this.#appeared.set(asset, (this.#appeared.get(asset) ?? 0n) + difference);
    return difference;
  }

  /** Entries are missing on purpose: the next balance of each account is its first. */
  forget(): void {
    this.#stated = [];
  }

  /** Of each asset what appeared without an entry; below 0: what vanished. Those that add up to 0 are left out. */
  appeared(): [asset: string, amount: bigint][] {
    return [...this.#appeared].filter(([, amount]) => amount !== 0n);
  }
}
