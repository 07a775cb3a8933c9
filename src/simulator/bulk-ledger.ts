import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { AccountType, TransferType } from "../../gen/vega/vega_pb.js";
import type { AssetDefinition } from "./asset.js";
import { type BlockWriter, eventKinds } from "./block-writer.js";
import type { Random } from "./random.js";

/** Entries of one event. */
const entriesPerEventMax = 500;
/** Entries of one movement. */
const entriesPerMovementMax = 3;
const entryBytesMax = 1_024;
/** Bytes of an identifier. */
const idBytes = 64;

/** Parties with most of the entries. */
export const hotPartiesMax = 10;
/** Parties with most of the rest. */
export const warmPartiesMax = 1_000;
/** One in this many parties, at the end of the list, is active only in the early blocks. */
export const pastPartiesOneIn = 20;
/** Shares of entries by party, in hundredths: hot, warm; the rest belong to all others. */
const hotHundredths = 45;
const warmHundredths = 35;
/** The share of early entries that belong to those parties, in hundredths. */
const pastHundredths = 50;

const bulkAssets = [
  { symbol: "bUSD", name: "Bulk dollar", decimals: 6 },
  { symbol: "bETH", name: "Bulk ether", decimals: 18 },
] as const;
const assetCount = bulkAssets.length;
/** Balances are integers that a double holds exactly. */
const balanceMax = 8e15;
const amountMax = 1e9;
const depositMax = 1e10;
const zeroAmountOneIn = 100;

/** One side of an entry relative to its party: whose account, and of which type. */
interface Place {
  readonly type: AccountType;
  readonly owned: boolean;
  readonly ofMarket: boolean;
}

const external: Place = { type: AccountType.EXTERNAL, owned: false, ofMarket: false };
const general: Place = { type: AccountType.GENERAL, owned: true, ofMarket: false };
const margin: Place = { type: AccountType.MARGIN, owned: true, ofMarket: true };
const settlement: Place = { type: AccountType.SETTLEMENT, owned: false, ofMarket: true };
const makerFees: Place = { type: AccountType.FEES_MAKER, owned: false, ofMarket: true };
const liquidityFees: Place = { type: AccountType.FEES_LIQUIDITY, owned: false, ofMarket: true };
const infrastructureFees: Place = { type: AccountType.FEES_INFRASTRUCTURE, owned: false, ofMarket: false };

/** The kinds of entries and their frequencies, in ten thousandths. */
interface Shape {
  readonly from: Place;
  readonly to: Place;
  readonly type: TransferType;
  readonly share: number;
}

const deposit: Shape = { from: external, to: general, type: TransferType.DEPOSIT, share: 200 };
/** From one party to another, so that two busy accounts meet, but rarely. */
const gift: Shape = { from: general, to: general, type: TransferType.TRANSFER_FUNDS_DISTRIBUTE, share: 1 };

const shapes: readonly Shape[] = [
  { from: general, to: margin, type: TransferType.MARGIN_LOW, share: 2_200 },
  { from: margin, to: settlement, type: TransferType.MTM_LOSS, share: 1_800 },
  { from: settlement, to: margin, type: TransferType.MTM_WIN, share: 1_800 },
  { from: margin, to: general, type: TransferType.MARGIN_HIGH, share: 1_199 },
  { from: general, to: makerFees, type: TransferType.MAKER_FEE_PAY, share: 600 },
  { from: makerFees, to: general, type: TransferType.MAKER_FEE_RECEIVE, share: 600 },
  { from: general, to: infrastructureFees, type: TransferType.INFRASTRUCTURE_FEE_PAY, share: 500 },
  { from: general, to: liquidityFees, type: TransferType.LIQUIDITY_FEE_PAY, share: 500 },
  { from: liquidityFees, to: general, type: TransferType.LIQUIDITY_FEE_DISTRIBUTE, share: 295 },
  { from: infrastructureFees, to: general, type: TransferType.INFRASTRUCTURE_FEE_DISTRIBUTE, share: 200 },
  deposit,
  { from: general, to: external, type: TransferType.WITHDRAW, share: 100 },
  { from: settlement, to: margin, type: TransferType.WIN, share: 3 },
  { from: margin, to: settlement, type: TransferType.LOSS, share: 2 },
  gift,
];

const sharesTotal = 10_000;

/** The kind for each random number. */
const shapeOfDraw: readonly Shape[] = shapes.flatMap((shape) => new Array<Shape>(shape.share).fill(shape));

/** The bytes of an account before its owner and its market, for each side and asset. */
type Heads = ReadonlyMap<Place, readonly Buffer[]>;

const tag = {
  movement: 0x0a,
  entry: 0x0a,
  from: 0x0a,
  to: 0x12,
  amount: 0x1a,
  type: 0x20,
  timestamp: 0x28,
  fromBalance: 0x32,
  toBalance: 0x3a,
  accountAsset: 0x0a,
  accountType: 0x10,
  accountOwner: 0x1a,
  accountMarket: 0x22,
} as const;

function idBuffer(ids: readonly string[]): Buffer {
  return Buffer.from(ids.join(""), "latin1");
}

function head(place: Place, asset: string): Buffer {
  const length = 2 + idBytes + 2 + (place.owned ? 2 + idBytes : 0) + (place.ofMarket ? 2 + idBytes : 0);
  const bytes = Buffer.alloc(idBytes + 16);
  let at = writeVarint(bytes, 0, length);
  bytes[at++] = tag.accountAsset;
  bytes[at++] = idBytes;
  at += bytes.write(asset, at, "latin1");
  bytes[at++] = tag.accountType;
  bytes[at++] = place.type;
  if (place.owned) {
    bytes[at++] = tag.accountOwner;
    bytes[at++] = idBytes;
  } else if (place.ofMarket) {
    bytes[at++] = tag.accountMarket;
    bytes[at++] = idBytes;
  }
  return bytes.subarray(0, at);
}

/** Size and distribution of the entries. */
export interface BulkLedgerOptions {
  readonly parties: number;
  readonly marketIds: readonly string[];
  /** Early parties are active up to this height. */
  readonly pastHeight: number;
}

/**
 * Ledger entries, up to hundreds of thousands per block, for a store of realistic size. They are encoded by hand, and
 * their balances are right: only the external account, which always states 0, gives more than it has.
 *
 * There are two additional assets. Each party has a general and a margin account, besides the accounts of the network.
 * Their use is skewed: {@link hotPartiesMax} parties have 45 of 100 entries (the first of them most), the next {@link
 * warmPartiesMax} have 35. The last one in {@link pastPartiesOneIn} of all parties occurs up to `pastHeight` only, in
 * half of the entries there.
 */
export class BulkLedger {
  readonly assets: readonly AssetDefinition[];
  readonly #random: Random;
  readonly #parties: number;
  readonly #markets: number;
  readonly #pastHeight: number;
  readonly #partyIds: Buffer;
  readonly #marketIds: Buffer;
  readonly #heads: Heads;
  /** Appended to amounts: the second asset has 12 more decimals than a double can hold. */
  readonly #zeros = [Buffer.alloc(0), Buffer.from("0".repeat(12))] as const;
  readonly #balances: ReadonlyMap<Place, Float64Array>;
  readonly #scratch = Buffer.allocUnsafe(entriesPerEventMax * entryBytesMax);
  #at = 0;
  #timestamp: Uint8Array = new Uint8Array();

  constructor(random: Random, options: BulkLedgerOptions) {
    this.#random = random;
    this.#parties = options.parties;
    this.#markets = options.marketIds.length;
    this.#pastHeight = options.pastHeight;
    this.#marketIds = idBuffer(options.marketIds);
    this.#partyIds = Buffer.allocUnsafe(options.parties * idBytes);
    for (let party = 0; party < options.parties; party++) {
      this.#partyIds.write(random.identifier(), party * idBytes, "latin1");
    }
    this.assets = bulkAssets.map((named) => ({ id: random.identifier(), ...named }));
    const assets = this.assets.map(({ id }) => id);
    const places = [external, general, margin, settlement, makerFees, liquidityFees, infrastructureFees];
    this.#heads = new Map(places.map((place) => [place, assets.map((asset) => head(place, asset))]));
    this.#balances = new Map(places.map((place) => [place, new Float64Array(this.#accountsAt(place))]));
  }

  /** Writes `count` entries as ledger movements of the block. */
  write(writer: BlockWriter, height: number, timeNs: bigint, count: number): void {
    this.#timestamp = new BinaryWriter().int64(timeNs).finish();
    for (let left = count; left > 0; left -= entriesPerEventMax) {
      this.#at = 0;
      this.#movements(height, Math.min(left, entriesPerEventMax));
      const { type, member } = eventKinds.ledgerMovements;
      writer.raw(type, member, this.#scratch.subarray(0, this.#at));
    }
  }

  #movements(height: number, count: number): void {
    const buffer = this.#scratch;
    let left = count;
    while (left > 0) {
      const entries = Math.min(left, 1 + this.#random.below(entriesPerMovementMax));
      buffer[this.#at] = tag.movement;
      const lengthAt = this.#at + 1;
      this.#at += 3;
      for (let i = 0; i < entries; i++) this.#entry(height);
      writeVarint(buffer, lengthAt, this.#at - lengthAt - 2);
      left -= entries;
    }
  }

  #party(height: number): number {
    const random = this.#random;
    const past = Math.floor(this.#parties / pastPartiesOneIn);
    const present = this.#parties - past;
    if (height <= this.#pastHeight && past > 0 && random.below(100) < pastHundredths)
      return present + random.below(past);
    const drawn = random.below(100);
    const hot = Math.min(hotPartiesMax, present);
    if (drawn < hotHundredths) return random.below(1 + random.below(hot));
    if (drawn < hotHundredths + warmHundredths && present > hot) {
      return hot + random.below(Math.min(warmPartiesMax, present - hot));
    }
    return random.below(present);
  }

  #entry(height: number): void {
    const random = this.#random;
    const party = this.#party(height);
    let shape = shapeOfDraw[random.below(sharesTotal)] ?? deposit;
    if (shape.from !== external && this.#balance(shape.from, party) === 0) shape = deposit;
    // A transfer to another party of the same asset.
    const receiver = shape === gift ? this.#giftTo(party, height) : party;
    const amount = this.#amount(shape, party, receiver);
    const fromBalance = this.#book(shape.from, party, -amount);
    const toBalance = this.#book(shape.to, receiver, amount);
    this.#encode(shape, party, receiver, amount, fromBalance, toBalance);
  }

  #encode(shape: Shape, party: number, receiver: number, amount: number, fromBalance: number, toBalance: number): void {
    const buffer = this.#scratch;
    buffer[this.#at] = tag.entry;
    const lengthAt = this.#at + 1;
    this.#at += 3;
    this.#account(tag.from, shape.from, party);
    this.#account(tag.to, shape.to, receiver);
    const zeros = this.#zeros[party % assetCount] ?? this.#zeros[0];
    this.#number(tag.amount, amount, zeros);
    buffer[this.#at++] = tag.type;
    buffer[this.#at++] = shape.type;
    buffer[this.#at++] = tag.timestamp;
    for (let i = 0; i < this.#timestamp.length; i++) buffer[this.#at++] = this.#timestamp[i] ?? 0;
    this.#number(tag.fromBalance, fromBalance, zeros);
    this.#number(tag.toBalance, toBalance, zeros);
    writeVarint(buffer, lengthAt, this.#at - lengthAt - 2);
  }

  #giftTo(party: number, height: number): number {
    const receiver = this.#party(height);
    return receiver % assetCount === party % assetCount ? receiver : party;
  }

  #amount(shape: Shape, party: number, receiver: number): number {
    const random = this.#random;
    if (random.below(zeroAmountOneIn) === 0 || this.#balance(shape.to, receiver) > balanceMax) return 0;
    if (shape.from === external) return 1 + random.below(depositMax);
    return random.below(Math.min(this.#balance(shape.from, party), amountMax) + 1);
  }

  #accountsAt(place: Place): number {
    if (place.owned) return this.#parties;
    return place.ofMarket ? assetCount * this.#markets : assetCount;
  }

  #index(place: Place, party: number): number {
    if (place.owned) return party;
    const asset = party % assetCount;
    return place.ofMarket ? asset * this.#markets + (party % this.#markets) : asset;
  }

  #balance(place: Place, party: number): number {
    return this.#balances.get(place)?.[this.#index(place, party)] ?? 0;
  }

  #book(place: Place, party: number, change: number): number {
    const balances = this.#balances.get(place);
    if (place === external || balances === undefined) return 0;
    const index = this.#index(place, party);
    const balance = (balances[index] ?? 0) + change;
    balances[index] = balance;
    return balance;
  }

  #account(fieldTag: number, place: Place, party: number): void {
    const buffer = this.#scratch;
    buffer[this.#at++] = fieldTag;
    const bytes = this.#heads.get(place)?.[party % assetCount];
    if (bytes !== undefined) this.#at += bytes.copy(buffer, this.#at);
    if (place.owned) this.#at += this.#partyIds.copy(buffer, this.#at, party * idBytes, (party + 1) * idBytes);
    if (!place.ofMarket) return;
    if (place.owned) {
      buffer[this.#at++] = tag.accountMarket;
      buffer[this.#at++] = idBytes;
    }
    const market = party % this.#markets;
    this.#at += this.#marketIds.copy(buffer, this.#at, market * idBytes, (market + 1) * idBytes);
  }

  #number(fieldTag: number, value: number, zeros: Buffer): void {
    const buffer = this.#scratch;
    buffer[this.#at] = fieldTag;
    const lengthAt = this.#at + 1;
    this.#at = writeDigits(buffer, this.#at + 2, value);
    if (value !== 0) {
      for (let i = 0; i < zeros.length; i++) buffer[this.#at++] = 0x30;
    }
    buffer[lengthAt] = this.#at - lengthAt - 1;
  }
}

const halfDigits = 8;
const half = 10 ** halfDigits;

/** Writes a whole number below 10^16 in decimal. @returns the offset behind it */
function writeDigits(buffer: Uint8Array, at: number, value: number): number {
  if (value < half) return writeHalf(buffer, at, value | 0, digitCount(value));
  const high = Math.floor(value / half);
  const offset = writeHalf(buffer, at, high | 0, digitCount(high));
  return writeHalf(buffer, offset, (value - high * half) | 0, halfDigits);
}

function digitCount(value: number): number {
  let count = 1;
  for (let limit = 10; value >= limit; limit *= 10) count++;
  return count;
}

function writeHalf(buffer: Uint8Array, at: number, value: number, count: number): number {
  let rest = value;
  for (let i = at + count - 1; i >= at; i--) {
    const tenth = (rest / 10) | 0;
    buffer[i] = 0x30 + rest - tenth * 10;
    rest = tenth;
  }
  return at + count;
}

/** Writes a protobuf varint of up to 32 bits. @returns the offset behind it */
function writeVarint(buffer: Uint8Array, at: number, value: number): number {
  let offset = at;
  let rest = value;
  while (rest > 0x7f) {
    buffer[offset++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  buffer[offset++] = rest;
  return offset;
}
