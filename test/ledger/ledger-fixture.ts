import { entryId } from "../../src/domain/block-position.js";
import type { Connection, Parameter } from "../../src/store/connection/connection.js";
import { type Database, openDatabase } from "../../src/store/database.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { newDatabaseUrl } from "../support/database.js";

/** An account as the network names it. */
export interface FixtureAccount {
  readonly party: string;
  readonly asset: string;
  /** Empty: none. */
  readonly market: string;
  readonly type: number;
}

/** An entry as the network makes it, with the place it got. */
export interface FixtureEntry {
  readonly id: bigint;
  readonly timeNs: bigint;
  readonly from: FixtureAccount;
  readonly to: FixtureAccount;
  readonly transferType: number;
  readonly quantity: string;
  readonly fromBalance: string;
  readonly toBalance: string;
}

/** An entry before it has a place. */
export type NewEntry = Omit<FixtureEntry, "id" | "timeNs">;

/** A real store with a ledger that grows by blocks, and the same ledger as a plain array. */
export class LedgerFixture {
  readonly database: Database;
  readonly url: string;
  readonly entries: FixtureEntry[] = [];
  readonly #accounts = new Map<string, number>();
  readonly #classes = new Map<string, number>();
  #height = 0n;
  #timeNs = 1_674_004_004_000_000_001n;

  private constructor(database: Database, url: string) {
    this.database = database;
    this.url = url;
  }

  static async create(): Promise<LedgerFixture> {
    const { url } = newDatabaseUrl();
    await migrate(url, createLog("silent"));
    return new LedgerFixture(openDatabase(url), url);
  }

  get height(): bigint {
    return this.#height;
  }

  /** Appends a block in one transaction; `gapNs` is the time since the last. An entry is in the array when committed. */
  async addBlock(entries: readonly NewEntry[], gapNs = 1_000_000_000n, skippedHeights = 0n): Promise<void> {
    this.#height += 1n + skippedHeights;
    this.#timeNs += gapNs;
    const height = this.#height;
    const timeNs = this.#timeNs;
    const placed = entries.map((entry, i) => ({ ...entry, id: entryId(height, i), timeNs }));
    await this.database.withTransaction((connection) => this.#write(connection, height, timeNs, placed));
    this.entries.push(...placed);
  }

  async drop(): Promise<void> {
    const name = new URL(this.url).pathname.slice(1);
    await this.database.withConnection((connection) => connection.run(`DROP DATABASE ${name}`));
    await this.database.close();
  }

  async #write(connection: Connection, height: bigint, timeNs: bigint, entries: readonly FixtureEntry[]) {
    await connection.run("INSERT INTO block VALUES (?, ?, ?, ?)", [height, timeNs, height, entries.length]);
    const rows: Parameter[][] = [];
    for (const entry of entries) {
      rows.push([
        entry.id,
        await this.#account(connection, entry.from),
        await this.#account(connection, entry.to),
        await this.#entryClass(connection, entry),
        entry.transferType,
        entry.timeNs,
        entry.quantity,
        entry.fromBalance,
        entry.toBalance,
      ]);
    }
    if (rows.length > 0) {
      const places = rows.map((row) => `(${row.map(() => "?").join(", ")})`).join(", ");
      await connection.run(`INSERT INTO ledger_entry VALUES ${places}`, rows.flat());
    }
    await connection.run("REPLACE INTO progress VALUES (1, 'fixture', ?, ?, ?, 0)", [height, height, timeNs]);
  }

  async #account(connection: Connection, account: FixtureAccount): Promise<number> {
    const identity = [account.party, account.asset, account.market, account.type];
    const key = identity.join("\0");
    const known = this.#accounts.get(key);
    if (known !== undefined) return known;
    const id = this.#accounts.size + 1;
    this.#accounts.set(key, id);
    await connection.run("INSERT INTO account VALUES (?, ?, ?, ?, ?)", [id, ...identity]);
    return id;
  }

  async #entryClass(connection: Connection, { from, to, transferType }: FixtureEntry): Promise<number> {
    const identity = [from.asset, from.market, from.type, to.asset, to.market, to.type, transferType];
    const key = identity.join("\0");
    const known = this.#classes.get(key);
    if (known !== undefined) return known;
    const id = this.#classes.size + 1;
    this.#classes.set(key, id);
    await connection.run("INSERT INTO entry_class VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [id, ...identity]);
    return id;
  }
}
