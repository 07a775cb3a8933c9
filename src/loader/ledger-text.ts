import { fromBinary } from "@bufbuild/protobuf";
import { type AccountDetails, AccountDetailsSchema } from "../../gen/vega/vega_pb.js";
import { entriesPerBlockMax, entryId } from "../domain/block-position.js";
import type { AccountRow, EntryClassRow } from "../store/account-table.js";
import type { RowText } from "../store/table-rows.js";
import type { AddedToLedger } from "./block-chain.js";
import { ByteIndex } from "./byte-index.js";
import { checkId, digitsMax, quantityError, quantityMax, requireId } from "./field-checks.js";
import { RecordingError } from "./recording-error.js";
import { enumValue, malformed, WireReader } from "./wire.js";

/** The owner of accounts for which the network names none. */
export const networkParty = "network";

/** The maximum number of bytes of a row of text. */
const rowBytesMax = 512;

const bytesAtFirst = 1024 * 1024;

/** What accounts have in common that differ only in their party. */
interface KnownKind {
  readonly number: number;
  readonly assetId: string;
  readonly marketId: string;
  readonly type: number;
}

/** An account, as the fold knows it: little, because a network has millions. */
interface KnownAccount {
  readonly id: number;
  readonly kind: KnownKind;
}

/** Numbers of the fields of `vega.LedgerEntry` that are stored; 5 is a timestamp. */
const entryFields = { from: 1, to: 2, amount: 3, type: 4, fromBalance: 6, toBalance: 7 } as const;

/** The wire types of its fields, by their numbers from 1. */
const entryWireTypes = [undefined, 2, 2, 2, 0, 0, 2, 2];

const quantityMaxBytes = Buffer.from(quantityMax, "latin1");

/**
 * Converts ledger movements to rows of text for LOAD DATA without creating objects: bytes of quantities are copied, and
 * an account is found by the bytes of its description. Accounts and classes are numbered in the order of first
 * appearance, so the numbers do not depend on how the recording was cut.
 */
export class LedgerTextWriter {
  #bytes: Buffer = Buffer.allocUnsafe(bytesAtFirst);
  #length = 0;
  #rows = 0;
  #newAccounts: AccountRow[] = [];
  #newClasses: EntryClassRow[] = [];
  #accountMax = 0;
  #classMax = 0;
  /** Accounts by the bytes of AccountDetails as the network writes them, and by their meaning. */
  readonly #byBytes = new ByteIndex<KnownAccount>();
  /** A view of the buffer of the current event. */
  #view: DataView = new DataView(new ArrayBuffer(0));
  readonly #byMeaning = new Map<string, KnownAccount>();
  readonly #kinds = new Map<string, KnownKind>();
  readonly #classes = new Map<number, Map<number, number>>();
  #height = 0n;
  #position = 0;
  #idHigh = Buffer.alloc(0);
  #idLow = 0;
  #timeText = Buffer.alloc(0);
  /** Length, rows, new accounts and new classes at the end of the last block. */
  #mark = { length: 0, rows: 0, accounts: 0, classes: 0 };
  readonly #movements = new WireReader();
  readonly #movement = new WireReader();
  readonly #entry = new WireReader();
  /** Where the values of the entry's fields begin and end, by their numbers; 0 where a field is missing. */
  readonly #starts = new Int32Array(entryWireTypes.length);
  readonly #stops = new Int32Array(entryWireTypes.length);
  /** Whether the last event had fields that these definitions lack. */
  hasUnknownFields = false;

  constructor(accounts: Iterable<AccountRow>, classes: Iterable<EntryClassRow>) {
    for (const row of accounts) this.#know(row);
    for (const row of classes) this.#knowClass(row);
  }

  /** Bytes that wait to be written. */
  get pendingBytes(): number {
    return this.#length;
  }

  /** Positions in use in the block. */
  get position(): number {
    return this.#position;
  }

  /** Starts a block. Positions continue from `position` if its height is repeated. */
  beginBlock(height: bigint, timeNs: bigint, position: number): void {
    this.#height = height;
    this.#position = position;
    this.#timeText = Buffer.from(`\t${timeNs}\t`, "latin1");
    this.#setIdBase();
  }

  /** Ends a block: what was added is included in the next `take`. */
  endBlock(): AddedToLedger {
    const { length, accounts, classes } = this.#mark;
    const added = {
      entries: this.#bytes.subarray(length, this.#length),
      accounts: this.#newAccounts.slice(accounts),
      classes: this.#newClasses.slice(classes),
      accountMax: this.#accountMax,
      classMax: this.#classMax,
    };
    this.#mark = {
      length: this.#length,
      rows: this.#rows,
      accounts: this.#newAccounts.length,
      classes: this.#newClasses.length,
    };
    return added;
  }

  /** Returns the rows of ended blocks; those of an open block stay. */
  take(): { text: RowText; accounts: AccountRow[]; classes: EntryClassRow[] } {
    const { length, rows, accounts, classes } = this.#mark;
    const taken = {
      text: { bytes: Buffer.from(this.#bytes.subarray(0, length)), rows },
      accounts: this.#newAccounts.slice(0, accounts),
      classes: this.#newClasses.slice(0, classes),
    };
    this.#bytes.copyWithin(0, length, this.#length);
    this.#length -= length;
    this.#rows -= rows;
    this.#newAccounts = this.#newAccounts.slice(accounts);
    this.#newClasses = this.#newClasses.slice(classes);
    this.#mark = { length: 0, rows: 0, accounts: 0, classes: 0 };
    return taken;
  }

  /** Adds `vega.events.v1.LedgerMovements`. @returns the bytes of its rows @throws RecordingError */
  add(movements: Buffer): number {
    const before = this.#length;
    this.hasUnknownFields = false;
    this.#view = new DataView(movements.buffer, movements.byteOffset, movements.byteLength);
    const list = this.#movements.over(movements, 0, movements.length);
    while (list.next()) {
      if (list.field !== 1 || list.wireType !== 2) {
        this.hasUnknownFields = true;
        continue;
      }
      const movement = this.#movement.over(movements, list.start, list.stop);
      while (movement.next()) {
        if (movement.field === 1 && movement.wireType === 2) this.#addEntry(movements, movement.start, movement.stop);
        else if (movement.field !== 2) this.hasUnknownFields = true;
      }
    }
    return this.#length - before;
  }

  #addEntry(buffer: Buffer, start: number, stop: number): void {
    const starts = this.#starts.fill(0);
    const stops = this.#stops.fill(0);
    let type = 0;
    const entry = this.#entry.over(buffer, start, stop);
    while (entry.next()) {
      const { field, wireType } = entry;
      if (field >= entryWireTypes.length) this.hasUnknownFields = true;
      else if (wireType !== entryWireTypes[field]) throw malformed();
      else if (field === entryFields.type) type = enumValue(entry);
      else {
        starts[field] = entry.start;
        stops[field] = entry.stop;
      }
    }
    const from = this.#account(buffer, entryFields.from);
    const to = this.#account(buffer, entryFields.to);
    const classId = this.#classId(from, to, type);
    if (this.#bytes.length - this.#length < rowBytesMax) this.#grow();
    this.#id();
    this.#tabNumber(from.id);
    this.#tabNumber(to.id);
    this.#tabNumber(classId);
    this.#tabNumber(type);
    this.#copy(this.#timeText);
    this.#digits(buffer, entryFields.amount, "amount");
    this.#bytes[this.#length++] = 0x09;
    this.#digits(buffer, entryFields.fromBalance, "from_account_balance");
    this.#bytes[this.#length++] = 0x09;
    this.#digits(buffer, entryFields.toBalance, "to_account_balance");
    this.#bytes[this.#length++] = 0x0a;
    this.#rows++;
  }

  #grow(): void {
    const larger = Buffer.allocUnsafe(this.#bytes.length * 2);
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }

  /** The digits of ids before the last nine rarely change, so that text is cached. Ids never become doubles. */
  #setIdBase(): void {
    const id = entryId(this.#height, this.#position);
    const high = id / 1_000_000_000n;
    this.#idHigh = Buffer.from(high === 0n ? "" : `${high}`, "latin1");
    this.#idLow = Number(id % 1_000_000_000n);
  }

  #id(): void {
    if (this.#position >= entriesPerBlockMax) {
      throw new RecordingError(`block ${this.#height} has more than ${entriesPerBlockMax} ledger entries`);
    }
    if (this.#idLow >= 1_000_000_000) this.#setIdBase();
    const bytes = this.#bytes;
    if (this.#idHigh.length === 0) {
      this.#number(this.#idLow);
    } else {
      this.#copy(this.#idHigh);
      let rest = this.#idLow;
      for (let at = this.#length + 8; at >= this.#length; at--) {
        const tenth = (rest / 10) | 0;
        bytes[at] = 0x30 + rest - tenth * 10;
        rest = tenth;
      }
      this.#length += 9;
    }
    this.#idLow++;
    this.#position++;
  }

  #copy(source: Buffer): void {
    const bytes = this.#bytes;
    let at = this.#length;
    for (let i = 0; i < source.length; i++) bytes[at++] = source[i] ?? 0;
    this.#length = at;
  }

  #tabNumber(value: number): void {
    this.#bytes[this.#length++] = 0x09;
    this.#number(value);
  }

  /** Writes a 32-bit integer. */
  #number(value: number): void {
    const bytes = this.#bytes;
    if (value < 0) {
      this.#length += bytes.write(`${value}`, this.#length, "latin1");
      return;
    }
    let digits = 1;
    for (let limit = 10; value >= limit; limit *= 10) digits++;
    let rest = value;
    for (let at = this.#length + digits - 1; at >= this.#length; at--) {
      const tenth = Math.floor(rest / 10);
      bytes[at] = 0x30 + rest - tenth * 10;
      rest = tenth;
    }
    this.#length += digits;
  }

  /** Copies a quantity without leading zeros; an absent one is 0. */
  #digits(source: Buffer, field: number, name: string): void {
    const start = this.#starts[field] ?? 0;
    const stop = this.#stops[field] ?? 0;
    const bytes = this.#bytes;
    let at = this.#length;
    if (start === stop) bytes[at++] = 0x30;
    let wrong = stop - start > digitsMax;
    let first = start;
    while (first < stop - 1 && source[first] === 0x30) first++;
    for (let i = first; i < stop && !wrong; i++) {
      const byte = source[i] ?? 0;
      wrong = byte < 0x30 || byte > 0x39;
      bytes[at++] = byte;
    }
    if (stop - start === digitsMax && source.compare(quantityMaxBytes, 0, digitsMax, start, stop) > 0) wrong = true;
    if (wrong) throw quantityError(`ledger_movements.entries.${name}`, source.toString("latin1", start, stop));
    this.#length = at;
  }

  #account(buffer: Buffer, field: number): KnownAccount {
    const start = this.#starts[field] ?? 0;
    const stop = this.#stops[field] ?? 0;
    return this.#byBytes.get(this.#view, start, stop) ?? this.#nameAccount(buffer.subarray(start, stop));
  }

  #nameAccount(body: Buffer): KnownAccount {
    const details = decodeAccount(body);
    const partyId = details.owner === undefined || details.owner === "" ? networkParty : details.owner;
    const marketId = details.marketId ?? "";
    requireId("ledger_movements.account.owner", partyId);
    requireId("ledger_movements.account.asset_id", details.assetId);
    checkId("ledger_movements.account.market_id", marketId);
    const row = { accountId: this.#accountMax + 1, partyId, assetId: details.assetId, marketId, type: details.type };
    let account = this.#byMeaning.get(meaning(partyId, this.#kind(row.assetId, marketId, row.type)));
    if (account === undefined) {
      account = this.#know(row);
      this.#newAccounts.push(row);
    }
    this.#byBytes.add(body, account);
    return account;
  }

  #know(row: AccountRow): KnownAccount {
    const kind = this.#kind(row.assetId, row.marketId, row.type);
    const account = { id: row.accountId, kind };
    this.#byMeaning.set(meaning(row.partyId, kind), account);
    this.#accountMax = Math.max(this.#accountMax, row.accountId);
    return account;
  }

  #kind(assetId: string, marketId: string, type: number): KnownKind {
    const key = `${assetId}\n${marketId}\n${type}`;
    let kind = this.#kinds.get(key);
    if (kind === undefined) {
      kind = { number: this.#kinds.size, assetId, marketId, type };
      this.#kinds.set(key, kind);
    }
    return kind;
  }

  #classId(from: KnownAccount, to: KnownAccount, transferType: number): number {
    const known = this.#classes.get(pairKey(from.kind, to.kind))?.get(transferType);
    if (known !== undefined) return known;
    const row: EntryClassRow = {
      classId: this.#classMax + 1,
      fromAssetId: from.kind.assetId,
      fromMarketId: from.kind.marketId,
      fromType: from.kind.type,
      toAssetId: to.kind.assetId,
      toMarketId: to.kind.marketId,
      toType: to.kind.type,
      transferType,
    };
    this.#knowClass(row);
    this.#newClasses.push(row);
    return row.classId;
  }

  #knowClass(row: EntryClassRow): void {
    const key = pairKey(
      this.#kind(row.fromAssetId, row.fromMarketId, row.fromType),
      this.#kind(row.toAssetId, row.toMarketId, row.toType),
    );
    let byType = this.#classes.get(key);
    if (byType === undefined) {
      byType = new Map();
      this.#classes.set(key, byType);
    }
    byType.set(row.transferType, row.classId);
    this.#classMax = Math.max(this.#classMax, row.classId);
  }
}

function decodeAccount(body: Buffer): AccountDetails {
  try {
    return fromBinary(AccountDetailsSchema, body);
  } catch (error) {
    throw new RecordingError("holds bytes that are not a vega.AccountDetails", error);
  }
}

/** Kinds are numbered from 0 in this process, so a pair of them fits a number. */
function pairKey(from: KnownKind, to: KnownKind): number {
  return from.number * 67_108_864 + to.number;
}

function meaning(partyId: string, kind: KnownKind): string {
  return `${kind.number}\n${partyId}`;
}
