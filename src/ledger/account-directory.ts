import { ReadBehindError } from "../store/known-place.js";
import type { PlacedConnection } from "../store/placed-read.js";

/**
 * The properties of an account besides its party. There is one object per kind, so kinds can be compared by identity.
 */
export interface AccountKind {
  readonly assetId: string;
  /** Empty: no market. */
  readonly marketId: string;
  /** vega.AccountType */
  readonly type: number;
  /** The accounts of this kind, ascending. */
  readonly accounts: readonly number[];
}

/** A row of `account`. */
export interface Account {
  readonly id: number;
  readonly partyId: string;
  readonly kind: AccountKind;
}

/** A row of `entry_class`. */
export interface EntryClass {
  readonly id: number;
  readonly from: AccountKind;
  readonly to: AccountKind;
  /** vega.TransferType */
  readonly transferType: number;
}

/** The highest account and class numbers at a time. */
export interface DirectoryExtent {
  readonly accountMax: number;
  readonly classMax: number;
}

interface AccountRow {
  readonly account_id: number;
  readonly party_id: string;
  readonly asset_id: string;
  readonly market_id: string;
  readonly type: number;
}

interface ClassRow {
  readonly class_id: number;
  readonly from_asset_id: string;
  readonly from_market_id: string;
  readonly from_type: number;
  readonly to_asset_id: string;
  readonly to_market_id: string;
  readonly to_type: number;
  readonly transfer_type: number;
}

/** Rows that one query of the directory fetches at most. */
export const directoryRowsMax = 50_000;

/** Whether all numbers up to `needed` are known. */
export function covers(known: DirectoryExtent, needed: DirectoryExtent): boolean {
  return known.accountMax >= needed.accountMax && known.classMax >= needed.classMax;
}

/** @throws ReadBehindError if the rows do not end with the highest number, which is in use */
function checkReached(last: number | undefined, max: number): void {
  if (max > 0 && last !== max) throw new ReadBehindError("the server lacks accounts");
}

type GrowingKind = AccountKind & { readonly accounts: number[] };

/**
 * All accounts and entry classes in memory: about 150 bytes per account, plus each party's name once. Both only grow,
 * with increasing numbers, so the directory is refreshed by fetching the rows above its own.
 */
export class AccountDirectory {
  readonly #accounts: (Account | undefined)[] = [];
  readonly #byParty = new Map<string, Account[]>();
  readonly #kinds = new Map<string, GrowingKind>();
  readonly #classes: (EntryClass | undefined)[] = [];
  readonly #knownClasses: EntryClass[] = [];
  #refreshing: Promise<void> = Promise.resolve();

  /** The highest known numbers. */
  get extent(): DirectoryExtent {
    return { accountMax: this.#accounts.length - 1, classMax: this.#classes.length - 1 };
  }

  /** Fetches everything up to `extent` that is not known. Concurrent requests share the work. */
  async refresh(connection: PlacedConnection, extent: DirectoryExtent): Promise<void> {
    if (covers(this.extent, extent)) return;
    const earlier = this.#refreshing;
    const turn = earlier.catch(() => undefined).then(() => this.#fetch(connection, extent));
    this.#refreshing = turn;
    await turn;
  }

  account(id: number): Account {
    const account = this.#accounts[id];
    if (account === undefined) throw new Error(`the store names account ${id}, which it does not hold`);
    return account;
  }

  entryClass(id: number): EntryClass {
    const entryClass = this.#classes[id];
    if (entryClass === undefined) throw new Error(`the store names entry class ${id}, which it does not hold`);
    return entryClass;
  }

  /** All classes, in the order of their numbers. */
  get classes(): readonly EntryClass[] {
    return this.#knownClasses;
  }

  /** The accounts of a party, in the order of their numbers. */
  accountsOf(partyId: string): readonly Account[] {
    return this.#byParty.get(partyId) ?? [];
  }

  async #fetch(connection: PlacedConnection, extent: DirectoryExtent): Promise<void> {
    while (this.#accounts.length <= extent.accountMax) {
      const rows = await connection.query<AccountRow>(
        `SELECT account_id, party_id, asset_id, market_id, type FROM account
         WHERE ${connection.holds} AND account_id >= ? AND account_id <= ? ORDER BY account_id LIMIT ${directoryRowsMax}`,
        [this.#accounts.length, extent.accountMax],
      );
      for (const row of rows) this.#addAccount(row);
      if (rows.length === directoryRowsMax) continue;
      checkReached(rows.at(-1)?.account_id, extent.accountMax);
      this.#accounts.length = Math.max(this.#accounts.length, extent.accountMax + 1);
    }
    while (this.#classes.length <= extent.classMax) {
      const rows = await connection.query<ClassRow>(
        `SELECT class_id, from_asset_id, from_market_id, from_type, to_asset_id, to_market_id, to_type, transfer_type
         FROM entry_class WHERE ${connection.holds} AND class_id >= ? AND class_id <= ? ORDER BY class_id LIMIT ${directoryRowsMax}`,
        [this.#classes.length, extent.classMax],
      );
      for (const row of rows) this.#addClass(row);
      if (rows.length === directoryRowsMax) continue;
      checkReached(rows.at(-1)?.class_id, extent.classMax);
      this.#classes.length = Math.max(this.#classes.length, extent.classMax + 1);
    }
  }

  #addAccount(row: AccountRow): void {
    const kind = this.#kind(row.asset_id, row.market_id, row.type);
    const known = this.#byParty.get(row.party_id);
    // Accounts share the string of their party's name; the driver makes a new one for each row.
    const account: Account = { id: row.account_id, partyId: known?.[0]?.partyId ?? row.party_id, kind };
    kind.accounts.push(row.account_id);
    if (known === undefined) this.#byParty.set(row.party_id, [account]);
    else known.push(account);
    this.#accounts[row.account_id] = account;
  }

  #addClass(row: ClassRow): void {
    const entryClass: EntryClass = {
      id: row.class_id,
      from: this.#kind(row.from_asset_id, row.from_market_id, row.from_type),
      to: this.#kind(row.to_asset_id, row.to_market_id, row.to_type),
      transferType: row.transfer_type,
    };
    this.#classes[row.class_id] = entryClass;
    this.#knownClasses.push(entryClass);
  }

  #kind(assetId: string, marketId: string, type: number): GrowingKind {
    // Identifiers are printable, so a zero character separates them.
    const key = `${type}\0${assetId}\0${marketId}`;
    let kind = this.#kinds.get(key);
    if (kind === undefined) {
      kind = { assetId, marketId, type, accounts: [] };
      this.#kinds.set(key, kind);
    }
    return kind;
  }
}
