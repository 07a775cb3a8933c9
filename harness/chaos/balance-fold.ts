import { create, toJsonString } from "@bufbuild/protobuf";
import { AccountBalanceSchema, AggregatedBalanceSchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { digestOf } from "./digest.js";
import type { Account } from "./fold.js";
import { GrowingList } from "./growing-list.js";
import { History } from "./history.js";

/** What an account holds at the end of a block, where that is something else than before. */
interface BalanceChange {
  readonly account: Account;
  readonly timeNs: bigint;
  readonly balance: string;
}

interface KnownAccount {
  readonly account: Account;
  /** In the order in which entries name accounts. */
  readonly number: number;
  /** The block that named it first. */
  readonly height: number;
  readonly balances: History<string>;
  /** What the newest entry states. */
  stated: string;
}

/** The balances of all accounts at the end of every block. */
export class BalanceFold {
  /** By block, then by account. */
  readonly changes = new GrowingList(changeDigest);
  readonly #accounts = new Map<Account, KnownAccount>();
  readonly #byParty = new Map<string, KnownAccount[]>();
  readonly #touched = new Set<KnownAccount>();

  /** An entry of the open block states a balance. */
  state(account: Account, balance: string, height: number): void {
    let known = this.#accounts.get(account);
    if (known === undefined) {
      known = { account, number: this.#accounts.size, height, balances: new History(), stated: "0" };
      this.#accounts.set(account, known);
      const { party } = account;
      this.#byParty.set(party, [...(this.#byParty.get(party) ?? []), known]);
    }
    known.stated = balance === "" ? "0" : balance;
    this.#touched.add(known);
  }

  endBlock(height: number, timeNs: bigint): void {
    for (const { account, balances, stated } of [...this.#touched].sort((a, b) => a.number - b.number)) {
      if ((balances.at(height) ?? "0") === stated) continue;
      balances.set(height, stated);
      this.changes.add({ account, timeNs, balance: stated }, [account.party]);
    }
    this.#touched.clear();
    this.changes.endBlock();
  }

  /** Digests of a party's accounts at the end of block `height`, in order, with their balances at that of `asOf`. */
  accounts(party: string, height: number, asOf: number): string[] {
    const known = (this.#byParty.get(party) ?? []).filter((each) => each.height <= height);
    return known.map(({ account, balances }) => {
      const { party: owner, asset, market: marketId, type } = account;
      const node = { owner, asset, marketId, type, balance: balances.at(asOf) ?? "0" };
      return digestOf(toJsonString(AccountBalanceSchema, create(AccountBalanceSchema, node)));
    });
  }
}

function changeDigest({ account, timeNs: timestamp, balance }: BalanceChange): string {
  const { party: partyId, asset: assetId, market, type: accountType } = account;
  const marketId = market === "" ? {} : { marketId: market };
  const row = { timestamp, balance, partyId, assetId, accountType, ...marketId };
  return digestOf(toJsonString(AggregatedBalanceSchema, create(AggregatedBalanceSchema, row)));
}
