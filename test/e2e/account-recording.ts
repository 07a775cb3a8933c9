import { AccountType, TransferType } from "../../gen/vega/vega_pb.js";
import { nanoseconds } from "../../src/domain/instant.js";
import { RecordingBuilder } from "../support/recording.js";

/** An account, as entries name it. */
export interface Account {
  readonly owner?: string;
  readonly assetId: string;
  readonly marketId?: string;
  readonly type: AccountType;
}

/** A party's general account. */
export const general = (owner: string, assetId = "btc"): Account => ({ owner, assetId, type: AccountType.GENERAL });
/** Blocks of ledger entries, with the balances that follow from them. */
export class AccountRecording extends RecordingBuilder {
  #height = 0;
  readonly #balances = new Map<string, bigint>();

  at(time: string, fill: (recording: this) => unknown): this {
    return this.block(++this.#height, BigInt(nanoseconds(time) ?? 0), fill);
  }

  /** An entry, with the balances that follow from those before it. */
  move(from: Account, to: Account, amount: bigint, type: TransferType): this {
    const add = (account: Account, moved: bigint) => {
      const key = JSON.stringify(account);
      // What comes from outside is not counted there.
      const balance = account.type === AccountType.EXTERNAL ? 0n : (this.#balances.get(key) ?? 0n) + moved;
      this.#balances.set(key, balance);
      return String(balance);
    };
    const [fromBalance, toBalance] = [add(from, -amount), add(to, amount)];
    return this.transfer({ from, to, amount: String(amount), fromBalance, toBalance, type });
  }

  deposit(account: Account, amount: bigint): this {
    const external = { assetId: account.assetId, type: AccountType.EXTERNAL };
    return this.move(external, account, amount, TransferType.DEPOSIT);
  }
}
