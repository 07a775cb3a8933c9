import { type AccountRow, accountRows, readEntryClasses } from "../store/account-table.js";
import type { Connection } from "../store/connection/connection.js";
import { readInOrder } from "../store/table-rows.js";

/** `vega.AccountType` of the external account, which stands for the world outside of the network. */
const external = 10;

const rowsPerQuery = 50_000;

/** The common properties of accounts. There is one object per kind, so kinds can be compared by identity. */
interface Kind {
  readonly assetId: string;
  readonly isExternal: boolean;
}

/** The properties of a class that entries are compared with. */
interface ClassKinds {
  readonly from: Kind;
  readonly to: Kind;
  readonly transferType: number;
}

/** The properties of all accounts and entry classes that entries are compared with: 8 bytes per account. */
export class Accounts {
  /** By account. */
  readonly #kindOf: Kind[] = [];
  readonly #kinds = new Map<string, Kind>();
  readonly #classes = new Map<number, ClassKinds>();

  static async read(connection: Connection): Promise<Accounts> {
    const accounts = new Accounts();
    for await (const rows of readInOrder<AccountRow>(connection, accountRows, rowsPerQuery)) {
      for (const { accountId, assetId, marketId, type } of rows) {
        accounts.#kindOf[accountId] = accounts.#kind(assetId, marketId, type);
      }
    }
    for (const row of await readEntryClasses(connection)) {
      const from = accounts.#kind(row.fromAssetId, row.fromMarketId, row.fromType);
      const to = accounts.#kind(row.toAssetId, row.toMarketId, row.toType);
      accounts.#classes.set(row.classId, { from, to, transferType: row.transferType });
    }
    return accounts;
  }

  /** What is wrong with the numbers of an entry; undefined if nothing is. */
  problem(from: number, to: number, classId: number, transferType: number): string | undefined {
    const entryClass = this.#classes.get(classId);
    if (entryClass === undefined) return `names entry class ${classId}, which is not there`;
    for (const [account, kind] of [
      [from, entryClass.from],
      [to, entryClass.to],
    ] as const) {
      const known = this.#kindOf[account];
      if (known === undefined) return `names account ${account}, which is not there`;
      if (known !== kind) return `has class ${classId}, which does not fit account ${account}`;
    }
    return entryClass.transferType === transferType ? undefined : `has not the transfer type of its class ${classId}`;
  }

  assetOf(account: number): string {
    return this.#kindOf[account]?.assetId ?? "";
  }

  isExternal(account: number): boolean {
    return this.#kindOf[account]?.isExternal === true;
  }

  #kind(assetId: string, marketId: string, type: number): Kind {
    const key = `${type}\0${assetId}\0${marketId}`;
    let kind = this.#kinds.get(key);
    if (kind === undefined) {
      kind = { assetId, isExternal: type === external };
      this.#kinds.set(key, kind);
    }
    return kind;
  }
}
