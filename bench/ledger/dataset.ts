import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import mysql, { type Connection } from "mysql2/promise";
import { AccountType as A, TransferType as T } from "../../gen/vega/vega_pb.js";
import { firstIdOfBlock } from "../../src/domain/block-position.js";
import { parseDatabaseUrl } from "../../src/store/database-url.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";

/** Entries of a block. */
const entriesPerBlock = 20;
const assetCount = 10;
const marketCount = 50;
const packetBytes = 256 * 1024;
const blockTimeNs = 1_000_000_000n;
const genesisNs = 1_674_004_004_000_000_000n;

/** Which ledger to make. */
export interface DatasetOptions {
  readonly entries: number;
  /** Parties; each has about three accounts. */
  readonly parties: number;
  /** The share of all entries that is the hottest party's. */
  readonly hotShare: number;
}

interface AccountDef {
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
  readonly #network = new Map<string, AccountDef>();
  readonly #classes = new Map<number, Map<string, number>>();
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

  /** Lines for LOAD DATA, and per block one for `block`. */
  *lines(blocks: string[]): Generator<string> {
    const { entries } = this.options;
    for (let i = 0; i < entries; i++) {
      const position = i % entriesPerBlock;
      const height = BigInt(Math.floor(i / entriesPerBlock) + 1);
      const timeNs = genesisNs + height * blockTimeNs;
      if (position === 0) {
        blocks.push(`${height}\t${timeNs}\t${height}\t${Math.min(entriesPerBlock, entries - i)}\n`);
      }
      yield this.#line(i, firstIdOfBlock(height) + BigInt(position), timeNs);
    }
  }

  /** Lines for `account`, one at a time. */
  *accountLines(): Generator<string> {
    for (const { id, party, asset, market, type } of this.accounts) {
      yield `${id}\t${party}\t${assetId(asset)}\t${market === undefined ? "" : marketId(market)}\t${type}\n`;
    }
  }

  #line(i: number, id: bigint, timeNs: bigint): string {
    const [from, to, type] = this.#movement(i);
    const quantity = 1 + Math.floor(this.#random() * 1e12);
    const balance = Math.floor(this.#random() * 1e15);
    const classId = this.#classOf(from, to, type);
    return `${id}\t${from.id}\t${to.id}\t${classId}\t${type}\t${timeNs}\t${quantity}\t${balance}\t${balance + quantity}\n`;
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
    const account = this.#network.get(`${asset} ${market} ${type}`);
    if (account === undefined) throw new RangeError(`no network account ${asset} ${market} ${type}`);
    return account;
  }

  #addNetwork(asset: number, market: number | undefined, type: A): void {
    this.#network.set(`${asset} ${market} ${type}`, this.#add({ party: "network", asset, market, type }));
  }

  #add(account: Omit<AccountDef, "id">): AccountDef {
    const numbered = { ...account, id: this.accounts.length + 1 };
    this.accounts.push(numbered);
    return numbered;
  }

  #classOf(from: AccountDef, to: AccountDef, type: T): number {
    const key = `${from.asset} ${from.market} ${from.type} ${to.market} ${to.type}`;
    let ofType = this.#classes.get(type);
    if (ofType === undefined) {
      ofType = new Map();
      this.#classes.set(type, ofType);
    }
    let id = ofType.get(key);
    if (id === undefined) {
      id = this.classRows.length + 1;
      ofType.set(key, id);
      const side = ({ asset, market, type: accountType }: AccountDef) => [
        assetId(asset),
        market === undefined ? "" : marketId(market),
        accountType,
      ];
      this.classRows.push([id, ...side(from), ...side(to), type]);
    }
    return id;
  }

  /** mulberry32 */
  #random(): number {
    this.#seed = (this.#seed + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#seed ^ (this.#seed >>> 15), 1 | this.#seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }
}

const indexes = [
  "ledger_entry_class (class_id, id)",
  "ledger_entry_from (from_account, class_id, id, to_account)",
  "ledger_entry_to (to_account, class_id, id, from_account)",
];

/** A connection that may send files; the service's own may not. */
async function connect(url: string): Promise<Connection> {
  const { host, port, socketPath, user, password, database } = parseDatabaseUrl(url);
  const place = socketPath === undefined ? { host, port } : { socketPath };
  return mysql.createConnection({ ...place, user, password, database });
}

/** Fills a database with a dataset, unless it is there. Indexes are built after the rows: the sorted way is faster. */
export async function makeDataset(url: string, options: DatasetOptions, say: (text: string) => void): Promise<void> {
  await migrate(url, createLog("error"));
  const connection = await connect(url);
  try {
    const [rows] = await connection.query<mysql.RowDataPacket[]>("SELECT stream_sequence AS done FROM progress");
    if (rows.length > 0) return;
    const began = Date.now();
    const dataset = new Dataset(options);
    for (const table of ["block", "account", "entry_class", "ledger_entry"])
      await connection.query(`TRUNCATE ${table}`);
    await connection.query("SET SESSION unique_checks = 0, foreign_key_checks = 0");
    const names = indexes.map((index) => index.slice(0, index.indexOf(" ")));
    const [present] = await connection.query<mysql.RowDataPacket[]>("SHOW INDEX FROM ledger_entry");
    const drops = names.filter((name) => present.some((row) => row["Key_name"] === name));
    if (drops.length > 0) {
      await connection.query(`ALTER TABLE ledger_entry ${drops.map((name) => `DROP INDEX ${name}`).join(", ")}`);
    }
    const blocks: string[] = [];
    await loadLines(connection, "ledger_entry", dataset.lines(blocks));
    say(`${options.entries} entries loaded after ${Math.round((Date.now() - began) / 1000)} s`);
    await loadLines(connection, "block", blocks);
    await loadLines(connection, "account", dataset.accountLines());
    await loadLines(connection, "entry_class", [dataset.classRows.map((row) => `${row.join("\t")}\n`).join("")]);
    for (const index of indexes) await connection.query(`ALTER TABLE ledger_entry ADD INDEX ${index}`);
    await connection.query("ANALYZE TABLE ledger_entry, block, account, entry_class");
    await connection.query(
      "INSERT INTO progress SELECT 1, 'bench', MAX(height), MAX(height), MAX(time_ns), 0 FROM block",
    );
    say(
      `${dataset.accounts.length} accounts, ${dataset.classRows.length} classes, indexes built: ` +
        `${Math.round((Date.now() - began) / 1000)} s in all`,
    );
  } finally {
    await connection.end();
  }
}

async function loadLines(connection: Connection, table: string, lines: Iterable<string>): Promise<void> {
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
