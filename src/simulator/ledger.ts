import { create } from "@bufbuild/protobuf";
import {
  type AccountDetails,
  AccountDetailsSchema,
  AccountType,
  type LedgerEntry,
  LedgerEntrySchema,
  type LedgerMovement,
  LedgerMovementSchema,
  PostTransferBalanceSchema,
  type TransferType,
} from "../../gen/vega/vega_pb.js";

/** An account of the simulated network. No balance goes below zero. */
export interface Account {
  readonly details: AccountDetails;
  balance: bigint;
}

/** A transfer to be made. */
export interface Transfer {
  readonly from: Account;
  readonly to: Account;
  readonly amount: bigint;
  readonly type: TransferType;
}

/** The largest amount the network can hold: 256 bits. */
export const amountMax = (1n << 256n) - 1n;

/** All accounts with their balances, and the movements of the block so far. */
export class Ledger {
  readonly #accounts = new Map<string, Account>();
  #movements: LedgerMovement[] = [];
  #timeNs = 0n;

  begin(timeNs: bigint): void {
    this.#timeNs = timeNs;
  }

  /** The account of this identity, made on first use. */
  account(assetId: string, type: AccountType, owner?: string, marketId?: string): Account {
    const key = `${assetId} ${type} ${owner ?? ""} ${marketId ?? ""}`;
    let account = this.#accounts.get(key);
    if (account === undefined) {
      const details = create(AccountDetailsSchema, { assetId, type });
      if (owner !== undefined) details.owner = owner;
      if (marketId !== undefined) details.marketId = marketId;
      account = { details, balance: 0n };
      this.#accounts.set(key, account);
    }
    return account;
  }

  /**
   * Makes transfers as one movement. Each takes at most what the source holds, so an entry's amount may be less than
   * requested, down to 0. The external account is unlimited, and always states 0.
   */
  move(...transfers: readonly Transfer[]): void {
    const entries = transfers.map((transfer) => this.#entry(transfer));
    const balances = [...new Set(transfers.map((transfer) => transfer.to))].map((account) =>
      create(PostTransferBalanceSchema, { account: account.details, balance: account.balance.toString() }),
    );
    this.#movements.push(create(LedgerMovementSchema, { entries, balances }));
  }

  /** The movements since the last call. */
  take(): LedgerMovement[] {
    const movements = this.#movements;
    this.#movements = [];
    return movements;
  }

  #entry({ from, to, amount, type }: Transfer): LedgerEntry {
    const outside = from.details.type === AccountType.EXTERNAL;
    const moved = outside || amount <= from.balance ? amount : from.balance;
    if (!outside) from.balance -= moved;
    if (to.details.type !== AccountType.EXTERNAL) to.balance += moved;
    if (to.balance > amountMax) throw new RangeError("a balance of the simulated network outgrew 256 bits");
    return create(LedgerEntrySchema, {
      fromAccount: from.details,
      toAccount: to.details,
      amount: moved.toString(),
      type,
      timestamp: this.#timeNs,
      fromAccountBalance: from.balance.toString(),
      toAccountBalance: to.balance.toString(),
    });
  }
}
