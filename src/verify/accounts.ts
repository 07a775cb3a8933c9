import type { Connection } from "../store/connection/connection.js";

/** `vega.AccountType` of the external account, which stands for the world outside of the network. */
const external = 10;

const rowsPerQuery = 50_000;

/** The common properties of accounts. */
interface Kind {
  readonly assetId: string;
  readonly isExternal: boolean;
}

/** The properties of a class that entries are compared with. */
interface ClassKinds {
  readonly from: number;
  readonly to: number;
  readonly transferType: number;
}

/** The properties of all accounts and entry classes that entries are compared with: 4 bytes per account. */
export class Accounts {
  #kindOf = new Int32Array(rowsPerQuery).fill(-1);
  readonly #kinds: Kind[] = [];
  readonly #byMeaning = new Map<string, number>();
  readonly #classes = new Map<number, ClassKinds>();
  count = 0;

  static async read(connection: Connection): Promise<Accounts> {
    const accounts = new Accounts();
    for (let last = -1; ; ) {
      const rows = await connection.query<{ id: number; asset: string; market: string; type: number }>(
        `SELECT account_id AS id, asset_id AS asset, market_id AS market, type FROM account
         WHERE account_id > ? ORDER BY account_id LIMIT ${rowsPerQuery}`,
        [last],
      );
      for (const { id, asset, market, type } of rows) accounts.#know(id, accounts.#kind(asset, market, type));
      accounts.count += rows.length;
      if (rows.length < rowsPerQuery) break;
      last = rows.at(-1)?.id ?? last;
    }
    const classes = await connection.query<{
      class_id: number;
      from_asset_id: string;
      from_market_id: string;
      from_type: number;
      to_asset_id: string;
      to_market_id: string;
      to_type: number;
      transfer_type: number;
    }>("SELECT * FROM entry_class");
    for (const row of classes) {
      const from = accounts.#kind(row.from_asset_id, row.from_market_id, row.from_type);
      const to = accounts.#kind(row.to_asset_id, row.to_market_id, row.to_type);
      accounts.#classes.set(row.class_id, { from, to, transferType: row.transfer_type });
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
      const known = this.#kindOf[account] ?? -1;
      if (known < 0) return `names account ${account}, which is not there`;
      if (known !== kind) return `has class ${classId}, which does not fit account ${account}`;
    }
    return entryClass.transferType === transferType ? undefined : `has not the transfer type of its class ${classId}`;
  }

  assetOf(account: number): string {
    return this.#kinds[this.#kindOf[account] ?? -1]?.assetId ?? "";
  }

  isExternal(account: number): boolean {
    return this.#kinds[this.#kindOf[account] ?? -1]?.isExternal === true;
  }

  #know(id: number, kind: number): void {
    if (id >= accountsHeldMax) return;
    if (id >= this.#kindOf.length) {
      const larger = new Int32Array(Math.max(id + 1, this.#kindOf.length * 2)).fill(-1);
      larger.set(this.#kindOf);
      this.#kindOf = larger;
    }
    this.#kindOf[id] = kind;
  }

  #kind(assetId: string, marketId: string, type: number): number {
    const meaning = `${type}\0${assetId}\0${marketId}`;
    const known = this.#byMeaning.get(meaning);
    if (known !== undefined) return known;
    const kind = this.#kinds.push({ assetId, isExternal: type === external }) - 1;
    this.#byMeaning.set(meaning, kind);
    return kind;
  }
}

/** A higher account number means damage: accounts are numbered from 1. */
const accountsHeldMax = 1 << 28;
