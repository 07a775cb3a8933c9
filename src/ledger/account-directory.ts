import { type EntryClassRow, entryClassRows } from "../store/account-table.js";
import { asText } from "../store/connection/column.js";
import type { Reader } from "../store/connection/lease.js";
import { ReadBehindError } from "../store/connection/store-place.js";

/**
 * The properties of an account besides its party. There is one object per kind, so kinds can be compared by identity.
 */
export interface AccountKind {
  readonly assetId: string;
  /** Empty: no market. */
  readonly marketId: string;
  /** vega.AccountType */
  readonly type: number;
  /** The number of accounts of this kind. */
  readonly accounts: number;
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

/** Rows that one query of the directory fetches at most: they are added in one piece, of some 15 ms. */
export const directoryRowsMax = 5_000;

/**
 * An account as one text column, because the driver reads one column faster than five. Identifiers contain no line
 * feed. The text after the party is the same for all accounts of a kind.
 */
const accountSql = asText("CONCAT_WS(x'0A', account_id, party_id, type, asset_id, market_id)");
const separator = "\n";

/** Whether all numbers up to `needed` are known. */
export function covers(known: DirectoryExtent, needed: DirectoryExtent): boolean {
  return known.accountMax >= needed.accountMax && known.classMax >= needed.classMax;
}

/** @throws ReadBehindError if the rows do not end with the highest number, which is in use */
function checkReached(last: number | undefined, max: number): void {
  if (max > 0 && last !== max) throw new ReadBehindError("the server lacks accounts");
}

type GrowingKind = AccountKind & { accounts: number };

/**
 * All accounts and entry classes in memory: about 35 bytes per account, and 130 per party. Both only grow, with
 * increasing numbers, so the directory is refreshed by fetching the rows above its own.
 */
export class AccountDirectory {
  /** By account number, like the two lists below: an object for each account would take four times the memory. */
  readonly #kindOf: (GrowingKind | undefined)[] = [];
  readonly #partyOf: (string | undefined)[] = [];
  /** The previous account of the same party; 0: none. */
  readonly #previousOf: number[] = [];
  readonly #newestOfParty = new Map<string, number>();
  readonly #kinds = new Map<string, GrowingKind>();
  readonly #classes: (EntryClass | undefined)[] = [];
  readonly #knownClasses: EntryClass[] = [];
  #refreshing: Promise<void> = Promise.resolve();

  /** The highest known numbers. */
  get extent(): DirectoryExtent {
    return { accountMax: this.#kindOf.length - 1, classMax: this.#classes.length - 1 };
  }

  /** Fetches everything up to `extent` that is not known. Concurrent requests share the work. */
  async refresh(reader: Reader, extent: DirectoryExtent): Promise<void> {
    if (covers(this.extent, extent)) return;
    const earlier = this.#refreshing;
    const turn = earlier.catch(() => undefined).then(() => this.#fetch(reader, extent));
    this.#refreshing = turn;
    await turn;
  }

  account(id: number): Account {
    const kind = this.#kindOf[id];
    const partyId = this.#partyOf[id];
    if (kind === undefined || partyId === undefined) {
      throw new Error(`the store names account ${id}, which it does not hold`);
    }
    return { id, partyId, kind };
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
  accountsOf(partyId: string): Account[] {
    const accounts: Account[] = [];
    for (let id = this.#newestOfParty.get(partyId) ?? 0; id > 0; id = this.#previousOf[id] ?? 0) {
      accounts.push(this.account(id));
    }
    return accounts.reverse();
  }

  async #fetch(reader: Reader, extent: DirectoryExtent): Promise<void> {
    while (this.#kindOf.length <= extent.accountMax) {
      const rows = await reader.query<{ readonly account: string }>(
        `SELECT ${accountSql} AS account FROM account
         WHERE ${reader.holds} AND account_id >= ? AND account_id <= ? ORDER BY account_id LIMIT ${directoryRowsMax}`,
        [this.#kindOf.length, extent.accountMax],
      );
      let last: number | undefined;
      for (const { account } of rows) last = this.#addAccount(account);
      if (rows.length === directoryRowsMax) continue;
      checkReached(last, extent.accountMax);
      this.#kindOf.length = Math.max(this.#kindOf.length, extent.accountMax + 1);
    }
    while (this.#classes.length <= extent.classMax) {
      const rows = await reader.query<EntryClassRow>(
        `${entryClassRows.select} WHERE ${reader.holds} AND class_id >= ? AND class_id <= ?
         ORDER BY class_id LIMIT ${directoryRowsMax}`,
        [this.#classes.length, extent.classMax],
      );
      for (const row of rows) this.#addClass(row);
      if (rows.length === directoryRowsMax) continue;
      checkReached(rows.at(-1)?.classId, extent.classMax);
      this.#classes.length = Math.max(this.#classes.length, extent.classMax + 1);
    }
  }

  /** Adds an account, given as {@link accountSql}. @returns its number */
  #addAccount(text: string): number {
    const partyStart = text.indexOf(separator) + 1;
    const kindStart = text.indexOf(separator, partyStart) + 1;
    const id = Number(text.slice(0, partyStart - 1));
    const party = text.slice(partyStart, kindStart - 1);
    const kind = this.#kind(text.slice(kindStart));
    const previous = this.#newestOfParty.get(party) ?? 0;
    // Accounts share the string of their party's name. It is a copy, because a slice keeps all of the text in memory.
    const partyId = this.#partyOf[previous] ?? Buffer.from(party, "latin1").toString("latin1");
    kind.accounts++;
    this.#kindOf[id] = kind;
    this.#partyOf[id] = partyId;
    this.#previousOf[id] = previous;
    this.#newestOfParty.set(partyId, id);
    return id;
  }

  #addClass(row: EntryClassRow): void {
    const entryClass: EntryClass = {
      id: row.classId,
      from: this.#kind([row.fromType, row.fromAssetId, row.fromMarketId].join(separator)),
      to: this.#kind([row.toType, row.toAssetId, row.toMarketId].join(separator)),
      transferType: row.transferType,
    };
    this.#classes[row.classId] = entryClass;
    this.#knownClasses.push(entryClass);
  }

  /** `key`: type, asset and market, as {@link accountSql} ends. */
  #kind(key: string): GrowingKind {
    let kind = this.#kinds.get(key);
    if (kind === undefined) {
      const [type, assetId = "", marketId = ""] = key.split(separator);
      kind = { assetId, marketId, type: Number(type), accounts: 0 };
      this.#kinds.set(key, kind);
    }
    return kind;
  }
}
