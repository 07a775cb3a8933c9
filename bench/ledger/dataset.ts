import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import mysql, { type Connection } from "mysql2/promise";
import { AccountType as A, TransferType as T } from "../../gen/vega/vega_pb.js";
import { firstIdOfBlock } from "../../src/domain/block-position.js";
import { parseDatabaseUrl } from "../../src/store/connection/database-url.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";

/** Entries of a block. */
const entriesPerBlock = 20;
const assetCount = 10;
const marketCount = 50;
const packetBytes = 256 * 1024;
const blockTimeNs = 1_000_000_000n;
const genesisNs = 1_674_004_004_000_000_000n;
/** Blocks of one LOAD DATA, which is one transaction. */
const blocksPerLoad = 250_000;
/** The last six digits of amounts: the text of a number above 32 bits is slow to make. */
const sixDigits = Array.from({ length: 1e6 }, (_, number) => String(number).padStart(6, "0"));

/** Which ledger to make. */
export interface DatasetOptions {
  readonly entries: number;
  /** Parties; each has about three accounts. */
  readonly parties: number;
  /** The share of all entries that is the hottest party's. */
  readonly hotShare: number;
}

interface AccountDef {
  /** Equal for accounts that differ only in their party. */
  readonly kind: number;
  readonly id: number;
  readonly party: string;
  readonly asset: number;
  readonly market: number | undefined;
  readonly type: A;
}

interface Party {
  readonly general: AccountDef;
  readonly margins: readonly AccountDef[];
}

/** 64 hexadecimal digits, as the network's identifiers are. */
function identifier(kind: string, number: number): string {
  return createHash("sha256").update(`${kind} ${number}`).digest("hex");
}

export const assetId = (i: number): string => identifier("asset", i);
export const marketId = (i: number): string => identifier("market", i);
export const partyId = (i: number): string => identifier("party", i);

/** The part that parties of the dataset play. */
export const hotParty = 0;
export const busyParty = 1;
/** Busy in the first twentieth of time, silent since. */
export const longAgoParty = 2;
/** Twenty entries in all of time, whatever the size of the ledger. */
export const coldParty = 3;
/** The same with four hundred: more than a page of 100, less than one of 1000. */
export const fewParty = 4;
/** Its market and asset were in use in the first twentieth of time alone. */
export const oldAsset = assetCount - 1;
export const oldMarket = marketCount - 1;

const coldEntries = 20;
const fewEntries = 400;
/** Losses that an insurance pool covers: the rare transfer type … */
const lossEntries = 200;
/** … and every so many of them is the hottest party's. */
const hotLossEvery = 16;
const warmParties = 100;

/**
 * A deterministic ledger: a few accounts with most entries, many with few, some active only long ago. What is rare has
 * the same number of entries in a ledger of any size, and what is not has more than any page holds: so a page of one
 * filter holds as many entries in a small ledger as in a large one, and what grows is all that lies around them.
 */
export class Dataset {
  readonly options: DatasetOptions;
  readonly accounts: AccountDef[] = [];
  readonly #parties: Party[] = [];
  readonly #network = new Map<number, AccountDef>();
  readonly #kinds = new Map<string, number>();
  readonly #classes = new Map<number, number>();
  readonly classRows: (string | number)[][] = [];
  #seed = 1;
  #losses = 0;

  constructor(options: DatasetOptions) {
    this.options = options;
    for (let asset = 0; asset < assetCount; asset++) {
      for (const type of [A.EXTERNAL, A.FEES_INFRASTRUCTURE, A.GLOBAL_REWARD]) this.#addNetwork(asset, undefined, type);
    }
    for (let market = 0; market < marketCount; market++) {
      for (const type of [A.SETTLEMENT, A.FEES_MAKER, A.FEES_LIQUIDITY, A.INSURANCE]) {
        this.#addNetwork(this.#assetOf(market), market, type);
      }
    }
    for (let party = 0; party < options.parties; party++) this.#addParty(party);
  }

  /** Lines for LOAD DATA, those of a block at a time, and per block one for `block`; from entry `first` on. */
  *lines(blocks: string[], first = 0, last = this.options.entries): Generator<string, void, undefined> {
    for (let at = first; at < last; at += entriesPerBlock) {
      const count = Math.min(entriesPerBlock, last - at);
      const height = BigInt(Math.floor(at / entriesPerBlock) + 1);
      const time = String(genesisNs + height * blockTimeNs);
      const firstId = firstIdOfBlock(height);
      blocks.push(`${height}\t${time}\t${height}\t${count}\n`);
      let text = "";
      for (let i = 0; i < count; i++) text += this.#line(at + i, firstId + BigInt(i), time);
      yield text;
    }
  }

  /** Lines for `account`, one at a time. */
  *accountLines(): Generator<string> {
    for (const { id, party, asset, market, type } of this.accounts) {
      yield `${id}\t${party}\t${assetId(asset)}\t${market === undefined ? "" : marketId(market)}\t${type}\n`;
    }
  }

  #line(i: number, id: bigint, time: string): string {
    const [from, to, type] = this.#movement(i);
    const quantity = 1 + this.#below(1e6);
    const quantityRest = this.#below(1e6);
    const balance = 1 + this.#below(1e9);
    const balanceRest = this.#below(1e6);
    const rest = quantityRest + balanceRest;
    const after = quantity + balance + (rest < 1e6 ? 0 : 1);
    const amounts = `${quantity}${sixDigits[quantityRest]}\t${balance}${sixDigits[balanceRest]}\t${after}${sixDigits[rest % 1e6]}`;
    const classId = this.#classOf(from, to, type);
    return `${id}\t${from.id}\t${to.id}\t${classId}\t${type}\t${time}\t${amounts}\n`;
  }

  #movement(i: number): [AccountDef, AccountDef, T] {
    const loss = i % Math.ceil(this.options.entries / lossEntries) === 11;
    const hot = loss && this.#losses++ % hotLossEvery === 0;
    const { general, margins } = hot ? this.#party(hotParty) : this.#pickParty(i);
    const margin = margins[Math.floor(this.#random() * margins.length)] ?? general;
    const { asset } = general;
    const market = margin.market ?? 0;
    const u = this.#random();
    if (loss) return [margin, this.#at(asset, market, A.INSURANCE), T.LOSS];
    if (u < 0.2) return [margin, this.#at(asset, market, A.SETTLEMENT), T.MTM_LOSS];
    if (u < 0.4) return [this.#at(asset, market, A.SETTLEMENT), margin, T.MTM_WIN];
    if (u < 0.52) return [general, margin, T.MARGIN_LOW];
    if (u < 0.64) return [margin, general, T.MARGIN_HIGH];
    if (u < 0.73) return [general, this.#at(asset, market, A.FEES_MAKER), T.MAKER_FEE_PAY];
    if (u < 0.82) return [this.#at(asset, market, A.FEES_MAKER), general, T.MAKER_FEE_RECEIVE];
    if (u < 0.89) return [general, this.#at(asset, undefined, A.FEES_INFRASTRUCTURE), T.INFRASTRUCTURE_FEE_PAY];
    if (u < 0.96) return [general, this.#at(asset, market, A.FEES_LIQUIDITY), T.LIQUIDITY_FEE_PAY];
    if (u < 0.98) return [this.#at(asset, undefined, A.EXTERNAL), general, T.DEPOSIT];
    return [general, this.#at(asset, undefined, A.EXTERNAL), T.WITHDRAW];
  }

  #pickParty(i: number): Party {
    const { entries, parties, hotShare } = this.options;
    const early = i < entries / 20;
    if (i % Math.ceil(entries / coldEntries) === 7) return this.#party(coldParty);
    if (i % Math.ceil(entries / fewEntries) === 9) return this.#party(fewParty);
    const u = this.#random();
    if (u < hotShare) return this.#party(hotParty);
    if (u < hotShare + 0.03) return this.#party(busyParty);
    if (early && u < hotShare + 0.08) return this.#party(longAgoParty);
    const first = fewParty + 1;
    if (u > 0.65) return this.#party(first + Math.floor(this.#random() * warmParties));
    // The last fifth of the parties is that of the old market.
    const old = Math.floor(parties / 5);
    const others = parties - old - first - warmParties;
    const pick = Math.floor(this.#random() * (early ? others + old : others));
    return this.#party(first + warmParties + pick);
  }

  #party(number: number): Party {
    const party = this.#parties[number];
    if (party === undefined) throw new RangeError(`no party ${number}`);
    return party;
  }

  #addParty(number: number): void {
    const old = number >= this.options.parties - Math.floor(this.options.parties / 5);
    const asset = old ? oldAsset : number % (assetCount - 1);
    const party = partyId(number);
    const markets = old ? [oldMarket] : this.#marketsOf(asset, number);
    const general = this.#add({ party, asset, market: undefined, type: A.GENERAL });
    this.#parties.push({
      general,
      margins: markets.map((market) => this.#add({ party, asset, market, type: A.MARGIN })),
    });
  }

  #marketsOf(asset: number, party: number): number[] {
    const markets: number[] = [];
    for (let market = asset; market < oldMarket; market += assetCount - 1) markets.push(market);
    return party < coldParty + warmParties
      ? markets
      : [0, 1].flatMap((i) => markets[(Math.floor(party / 9) + i) % markets.length] ?? []);
  }

  #assetOf(market: number): number {
    return market === oldMarket ? oldAsset : market % (assetCount - 1);
  }

  #at(asset: number, market: number | undefined, type: A): AccountDef {
    const account = this.#network.get(networkKey(asset, market, type));
    if (account === undefined) throw new RangeError(`no network account ${asset} ${market} ${type}`);
    return account;
  }

  #addNetwork(asset: number, market: number | undefined, type: A): void {
    this.#network.set(networkKey(asset, market, type), this.#add({ party: "network", asset, market, type }));
  }

  #add(account: Omit<AccountDef, "id" | "kind">): AccountDef {
    const key = `${account.asset} ${account.market} ${account.type}`;
    const kind = this.#kinds.get(key) ?? this.#kinds.size;
    this.#kinds.set(key, kind);
    const numbered = { ...account, kind, id: this.accounts.length + 1 };
    this.accounts.push(numbered);
    return numbered;
  }

  #classOf(from: AccountDef, to: AccountDef, type: T): number {
    const key = (from.kind * 4_096 + to.kind) * 4_096 + type;
    let id = this.#classes.get(key);
    if (id === undefined) {
      id = this.classRows.length + 1;
      this.#classes.set(key, id);
      const side = ({ asset, market, type: accountType }: AccountDef) => [
        assetId(asset),
        market === undefined ? "" : marketId(market),
        accountType,
      ];
      this.classRows.push([id, ...side(from), ...side(to), type]);
    }
    return id;
  }

  /** An integer from 0. */
  #below(end: number): number {
    return Math.floor(this.#random() * end);
  }

  /** mulberry32 */
  #random(): number {
    this.#seed = (this.#seed + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#seed ^ (this.#seed >>> 15), 1 | this.#seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }
}

function networkKey(asset: number, market: number | undefined, type: A): number {
  return (asset * 4_096 + (market ?? marketCount)) * 4_096 + type;
}

const indexes = [
  "ledger_entry_class (class_id, id)",
  "ledger_entry_from (from_account, class_id, id, to_account)",
  "ledger_entry_to (to_account, class_id, id, from_account)",
];

/** A connection that may send files; the service's own may not. */
export async function connect(url: string): Promise<Connection> {
  const { host, port, socketPath, user, password, database } = parseDatabaseUrl(url);
  const place = socketPath === undefined ? { host, port } : { socketPath };
  return mysql.createConnection({ ...place, user, password, database });
}

/** Fills a database with a dataset, unless it is there. Indexes are built after the rows: the sorted way is faster. */
export async function makeDataset(url: string, options: DatasetOptions, say: (text: string) => void): Promise<void> {
  await migrate(url, createLog("error"));
  const connection = await connect(url);
  try {
    if (await isMade(connection)) return;
    const began = Date.now();
    const seconds = () => Math.round((Date.now() - began) / 1000);
    const dataset = new Dataset(options);
    for (const table of ["block", "account", "entry_class", "ledger_entry"])
      await connection.query(`TRUNCATE ${table}`);
    await connection.query("SET SESSION unique_checks = 0, foreign_key_checks = 0");
    await dropIndexes(connection, "ledger_entry", indexes);
    const blocks: string[] = [];
    const lines = dataset.lines(blocks);
    for (let loaded = 0; loaded < options.entries; ) {
      await loadLines(connection, "ledger_entry", taken(lines, blocksPerLoad));
      await loadLines(connection, "block", blocks.splice(0));
      loaded = Math.min(loaded + blocksPerLoad * entriesPerBlock, options.entries);
      say(`${loaded.toLocaleString("en")} of ${options.entries.toLocaleString("en")} entries after ${seconds()} s`);
    }
    await loadLines(connection, "account", dataset.accountLines());
    await loadLines(connection, "entry_class", [dataset.classRows.map((row) => `${row.join("\t")}\n`).join("")]);
    say(`building ${indexes.length} indexes after ${seconds()} s`);
    await connection.query(`ALTER TABLE ledger_entry ${indexes.map((index) => `ADD INDEX ${index}`).join(", ")}`);
    await connection.query("ANALYZE TABLE ledger_entry, block, account, entry_class");
    await setMade(connection);
    say(
      `${dataset.accounts.length} accounts, ${dataset.classRows.length} classes, indexes built: ${seconds()} s in all`,
    );
  } finally {
    await connection.end();
  }
}

/** Drops those indexes of a table that are there. */
export async function dropIndexes(
  connection: Connection,
  table: string,
  definitions: readonly string[],
): Promise<void> {
  const names = definitions.map((index) => index.slice(0, index.indexOf(" ")));
  const [present] = await connection.query<mysql.RowDataPacket[]>(`SHOW INDEX FROM ${table}`);
  const drops = names.filter((name) => present.some((row) => row["Key_name"] === name));
  if (drops.length === 0) return;
  await connection.query(`ALTER TABLE ${table} ${drops.map((name) => `DROP INDEX ${name}`).join(", ")}`);
}

/** Whether a dataset was made in a database before. */
export async function isMade(connection: Connection): Promise<boolean> {
  const [rows] = await connection.query<mysql.RowDataPacket[]>("SELECT stream_sequence FROM progress");
  return rows.length > 0;
}

/** Says, last, that a dataset is made. */
export async function setMade(connection: Connection): Promise<void> {
  await connection.query(
    "INSERT INTO progress SELECT 1, 'bench', MAX(height), MAX(height), MAX(time_ns), 0 FROM block",
  );
}

/**
 * Entries per second of LOAD DATA that appends this many to a dataset with its indexes in place. The rows are made
 * beforehand, and rolled back afterwards.
 */
export async function appendRate(url: string, options: DatasetOptions, entries: number): Promise<number> {
  const connection = await connect(url);
  try {
    const lines = [...new Dataset(options).lines([], options.entries, options.entries + entries)];
    await connection.beginTransaction();
    const startedAt = performance.now();
    await loadLines(connection, "ledger_entry", lines);
    const seconds = (performance.now() - startedAt) / 1_000;
    await connection.rollback();
    return entries / seconds;
  } finally {
    await connection.end();
  }
}

/** The next items of an iterator, which stays open for the others. */
export function* taken<T>(items: Iterator<T, void, undefined>, count: number): Generator<T, void, undefined> {
  for (let i = 0; i < count; i++) {
    const next = items.next();
    if (next.done === true) return;
    yield next.value;
  }
}

export async function loadLines(connection: Connection, table: string, lines: Iterable<string>): Promise<void> {
  // A packet to the server must not exceed its max_allowed_packet.
  const bytes = function* () {
    let piece = "";
    for (const text of lines) {
      piece += text;
      if (piece.length < packetBytes) continue;
      yield Buffer.from(piece, "latin1");
      piece = "";
    }
    yield Buffer.from(piece, "latin1");
  };
  await connection.query({
    sql: `LOAD DATA LOCAL INFILE 'lines' INTO TABLE ${table} CHARACTER SET binary`,
    infileStreamFactory: () => Readable.from(bytes()),
  });
}
