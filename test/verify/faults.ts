import { firstIdOfBlock } from "../../src/domain/block-position.js";
import { Random } from "../../src/simulator/random.js";
import type { ColumnValue, Row } from "../../src/store/connection/column.js";
import type { Connection, Parameter } from "../../src/store/connection/connection.js";
import type { Database } from "../../src/store/database.js";
import { fromParts } from "../../src/store/history-table.js";
import { readOldestKept } from "../../src/store/ledger-entry-table.js";
import { readMigrations } from "../../src/store/migration-files.js";

/** Every table of the store, and its key. */
const tables: Readonly<Record<string, readonly string[]>> = {
  progress: ["id"],
  block: ["height"],
  market: ["market_id"],
  market_data: ["market_id"],
  asset: ["asset_id"],
  market_depth: ["market_id"],
  price_level: ["market_id", "side", "price"],
  live_order: ["order_id"],
  last_trade: ["market_id"],
  venue_market: ["market_id"],
  account: ["account_id"],
  entry_class: ["class_id"],
  ledger_entry: ["id"],
  signer_removed_bundle: ["signature_id"],
  node_signature: ["signature_id", "signature"],
  table_digest: ["table_name"],
  ledger_retention: ["id"],
  book_segment: ["market_id", "first_sequence"],
  book_segment_part: ["market_id", "first_sequence", "part"],
  book_change: ["market_id", "stream_sequence"],
  book_history: ["market_id"],
  trade: ["id"],
  trade_progress: ["id"],
  candle: ["market_id", "period_seconds", "start_ns", "first_trade"],
  history_digest: ["table_name"],
  migration: ["version"],
  compatible_migration: ["version"],
};

/** The store's name is the operator's to change; whose turn it is to load changes without a block. */
const freeColumns: ReadonlySet<string> = new Set(["store_id", "loader_id", "loader_beat"]);

/**
 * What no program can tell from what is right: a migration that only a newer release knows, an entry among those that
 * `retain` drops, which nobody is served, and bits behind the end of deflated bytes.
 */
function isHidden({ kind, table, before, after }: Fault, oldestEntry: bigint, migrations: number): boolean {
  if (table === "book_segment_part" && kind === "edit") return inflated(before) === inflated(after);
  if (kind !== "insert") return false;
  if (table === "compatible_migration") return after.some((row) => Number(row["version"]) > migrations);
  return table === "ledger_entry" && after.some((row) => (row["id"] as bigint) < oldestEntry);
}

/** What is deflated in a row that is the only part of it; undefined: it cannot be inflated. */
function inflated([row]: readonly Row[]): string | undefined {
  try {
    const { marketId: _, body, ...key } = row as Row & { readonly body: Uint8Array };
    return JSON.stringify([Object.values(key).map(String), fromParts([body]).toString("hex")]);
  } catch {
    return undefined;
  }
}

type MutableRow = Record<string, ColumnValue>;

/** Rows that are taken out of a table, and rows that take their place. */
export interface Fault {
  readonly kind: "edit" | "delete" | "insert" | "swap" | "null";
  readonly table: string;
  readonly before: readonly Row[];
  readonly after: readonly Row[];
  /** Columns with other values than before. */
  readonly columns: readonly string[];
  readonly isLastRow: boolean;
}

/** Makes random faults in a database, and takes them back. */
export class FaultPlanter {
  readonly #random: Random;
  readonly #database: Database;
  readonly #columns: ReadonlyMap<string, readonly string[]>;
  /** Columns that may be NULL, with their table's name and a dot before them. */
  readonly #nullable: ReadonlySet<string>;
  readonly #oldestEntry: bigint;

  private constructor(
    database: Database,
    columns: ReadonlyMap<string, readonly string[]>,
    nullable: ReadonlySet<string>,
    oldestEntry: bigint,
    seed: number,
  ) {
    this.#database = database;
    this.#columns = columns;
    this.#nullable = nullable;
    this.#oldestEntry = oldestEntry;
    this.#random = new Random(seed, "faults");
  }

  static async create(database: Database, seed: number): Promise<FaultPlanter> {
    const columns = new Map<string, string[]>(Object.keys(tables).map((table) => [table, []]));
    const nullable = new Set<string>();
    const rows = await database.query<{ t: string; c: string; n: string }>(
      `SELECT CAST(table_name AS CHAR) AS t, CAST(column_name AS CHAR) AS c, CAST(is_nullable AS CHAR) AS n
       FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position`,
    );
    for (const { t, c, n } of rows) {
      const known = columns.get(String(t));
      if (known === undefined) throw new Error(`no faults are planted in table ${t}`);
      known.push(String(c));
      if (String(n) === "YES") nullable.add(`${t}.${c}`);
    }
    const { height } = await database.withConnection(readOldestKept);
    return new FaultPlanter(database, columns, nullable, firstIdOfBlock(height), seed);
  }

  /**
   * Every kind of fault in every table: its last row deleted, each of its columns edited, each that is NULL filled, each
   * that may be NULL set to that, alone and with the others, and new rows inserted. With `all`, a column is edited in every
   * way in place of the first that the server takes, and its first row too. One at a time: each is taken back.
   */
  async *each(all: boolean): AsyncGenerator<Fault> {
    for (const table of Object.keys(tables)) {
      const rows = await this.#rows(table);
      const [first, last] = [rows[0], rows.at(-1)];
      if (first === undefined || last === undefined) throw new Error(`${table} has no rows`);
      const ofOthers = all ? this.#faultsOf(table, first, false) : [];
      const edited = new Set<string>();
      for (const fault of [...this.#faultsOf(table, last, true), ...ofOthers]) {
        if (!all && fault.columns.some((name) => edited.has(name))) continue;
        if (isHidden(fault, this.#oldestEntry, readMigrations().length) || !(await this.#try(fault))) continue;
        for (const name of fault.columns) edited.add(name);
        yield fault;
        await this.takeBack(fault);
      }
    }
  }

  #faultsOf(table: string, row: Row, isLastRow: boolean): Fault[] {
    const made = (kind: Fault["kind"], before: Row[], after: Row[], columns: string[] = []): Fault => {
      return { table, isLastRow, kind, before, after, columns };
    };
    const edit = (name: string, value: ColumnValue) => made("edit", [row], [{ ...row, [name]: value }], [name]);
    const columns = this.#columnsOf(table);
    const nullable = columns.filter((name) => row[name] !== null && this.#nullable.has(`${table}.${name}`));
    // Each column begins with another way.
    const edits = columns.flatMap((name, index) => {
      const others = this.#others(row[name] ?? null);
      const way = index % Math.max(1, others.length);
      return [...others.slice(way), ...others.slice(0, way)].map((value) => edit(name, value));
    });
    const isEmpty = (name: string) => row[name] === null && this.#nullable.has(`${table}.${name}`);
    const filled = columns.filter(isEmpty).map((name) => edit(name, "7"));
    const nulls = [...nullable.map((name) => [name]), ...(nullable.length > 1 ? [nullable] : [])];
    return [
      made("delete", [row], []),
      ...edits,
      ...filled,
      ...nulls.map((names) => made("null", [row], [{ ...row, ...Object.fromEntries(names.map((n) => [n, null])) }])),
      ...this.#newRows(table, row).map((inserted) => made("insert", [], [inserted])),
    ];
  }

  /** Rows like another with other keys. */
  #newRows(table: string, row: Row): Row[] {
    const key = (tables[table] ?? []).at(-1) ?? "";
    // What is unique besides the key.
    const unique = table === "account" || table === "entry_class" ? { market_id: "new", from_market_id: "new" } : {};
    return this.#others(row[key] ?? null).map((value) => ({ ...row, ...unique, [key]: value }));
  }

  /** Other values of the same kind: the next, the one before, none, and text with a zero before it. */
  #others(value: ColumnValue): ColumnValue[] {
    if (value === null) return [];
    if (typeof value === "bigint") return value > 1n ? [value + 1n, value - 1n, 0n] : [value + 1n, 1n - value];
    if (typeof value === "number") return value > 1 ? [value + 1, value - 1, 0] : [value + 1, 1 - value];
    const text = Buffer.from(typeof value === "string" ? Buffer.from(value, "latin1") : value);
    const like = (bytes: Buffer) => (typeof value === "string" ? bytes.toString("latin1") : bytes);
    if (text.length === 0) return [like(Buffer.from("7"))];
    return [this.#another(value), like(text.subarray(1)), like(Buffer.concat([Buffer.from("0"), text]))];
  }

  /** Whether the server takes it: it refuses what breaks a key, or is too long. */
  async #try({ table, before, after }: Fault): Promise<boolean> {
    try {
      await this.#replace(table, before, after);
      return true;
    } catch (error) {
      if (["ER_DUP_ENTRY", "ER_DATA_TOO_LONG"].includes((error as { code?: string }).code ?? "")) return false;
      throw error;
    }
  }

  /** A fault that the server takes: what breaks a key of the table is tried with other values. */
  async plant(): Promise<Fault> {
    for (;;) {
      const fault = await this.#make();
      if (fault === undefined || isHidden(fault, this.#oldestEntry, readMigrations().length)) continue;
      if (await this.#try(fault)) return fault;
    }
  }

  async takeBack({ table, before, after }: Fault): Promise<void> {
    await this.#replace(table, after, before);
  }

  async #make(): Promise<Fault | undefined> {
    const random = this.#random;
    const table = random.pick(Object.keys(tables));
    const kind = random.pick(["edit", "edit", "delete", "insert", "swap"] as const);
    const rows = await this.#rows(table);
    const isLastRow = random.chance(0.25);
    const row = isLastRow ? rows.at(-1) : random.pick(rows);
    if (row === undefined) throw new Error(`${table} has no rows`);
    const plain = { table, kind, isLastRow };
    if (kind === "delete") return { ...plain, before: [row], after: [], columns: [] };
    if (kind === "edit") {
      const column = random.pick(this.#columnsOf(table));
      const value = this.#another(row[column] ?? null);
      if (value === null) return undefined;
      return { ...plain, before: [row], after: [{ ...row, [column]: value }], columns: [column] };
    }
    if (kind === "insert") return { ...plain, before: [], after: [this.#newRow(table, row)], columns: [] };
    return this.#swap(plain, row, random.pick(rows));
  }

  /** A row like another one, with other values in its key and in every second other column. */
  #newRow(table: string, row: Row): Row {
    const key = tables[table] ?? [];
    const made: MutableRow = { ...row };
    const isAlsoUnique = table === "account" || table === "entry_class";
    for (const name of this.#columnsOf(table)) {
      if (!key.includes(name) && !isAlsoUnique && this.#random.chance(0.5)) continue;
      if (key.length > 1 && name !== key.at(-1) && this.#random.chance(0.5)) continue;
      made[name] = this.#another(row[name] ?? null);
    }
    return made;
  }

  /** Two rows exchange one value, or all but their keys. */
  #swap(plain: Pick<Fault, "table" | "kind" | "isLastRow">, one: Row, other: Row): Fault | undefined {
    const key = tables[plain.table] ?? [];
    const values = this.#columnsOf(plain.table).filter((name) => !key.includes(name));
    const columns = this.#random.chance(0.5) ? values : [this.#random.pick(values)];
    if (columns.every((name) => text(one[name]) === text(other[name]))) return undefined;
    const first: MutableRow = { ...one };
    const second: MutableRow = { ...other };
    for (const name of columns) [first[name], second[name]] = [other[name] ?? null, one[name] ?? null];
    return { ...plain, before: [one, other], after: [first, second], columns };
  }

  #columnsOf(table: string): readonly string[] {
    return (this.#columns.get(table) ?? []).filter((name) => !freeColumns.has(name));
  }

  /** Another value of the same kind; null stays null. */
  #another(value: ColumnValue): ColumnValue {
    const random = this.#random;
    if (value === null) return null;
    if (typeof value === "bigint") {
      const step = BigInt(random.pick([1, 1, 2, 1_000, 16_777_216]));
      return value > step && random.chance(0.5) ? value - step : value + step;
    }
    if (typeof value === "number") return value > 1 && random.chance(0.5) ? value - 1 : value + 1;
    const bytes = Buffer.from(typeof value === "string" ? Buffer.from(value, "latin1") : value);
    if (bytes.length === 0) return "7";
    const at = random.below(bytes.length);
    const byte = bytes[at] ?? 0;
    bytes[at] = byte >= 0x30 && byte <= 0x39 ? 0x30 + ((byte - 0x30 + random.between(1, 9)) % 10) : byte ^ 1;
    return typeof value === "string" ? bytes.toString("latin1") : bytes;
  }

  async #rows(table: string): Promise<Row[]> {
    const key = (tables[table] ?? []).join(", ");
    return this.#database.query(`SELECT ${(this.#columns.get(table) ?? []).join(", ")} FROM ${table} ORDER BY ${key}`);
  }

  async #replace(table: string, before: readonly Row[], after: readonly Row[]): Promise<void> {
    await this.#database.withTransaction(async (connection) => {
      for (const row of before) await this.#remove(connection, table, row);
      for (const row of after) await this.#insert(connection, table, row);
    });
  }

  async #remove(connection: Connection, table: string, row: Row): Promise<void> {
    const key = tables[table] ?? [];
    const { affectedRows } = await connection.run(
      `DELETE FROM ${table} WHERE ${key.map((name) => `${name} = ?`).join(" AND ")}`,
      key.map((name) => parameter(row[name])),
    );
    if (affectedRows !== 1) throw new Error(`${affectedRows} rows of ${table} were deleted in place of one`);
  }

  async #insert(connection: Connection, table: string, row: Row): Promise<void> {
    const columns = this.#columns.get(table) ?? [];
    await connection.run(
      `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`,
      columns.map((name) => parameter(row[name])),
    );
  }
}

/** Text of a column is bytes, which the driver must not encode. */
function parameter(value: ColumnValue | undefined): Parameter {
  return typeof value === "string" ? Buffer.from(value, "latin1") : (value ?? null);
}

function text(value: ColumnValue | undefined): string {
  return value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : String(value);
}
