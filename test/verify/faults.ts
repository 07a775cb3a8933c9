import { Random } from "../../src/simulator/random.js";
import type { ColumnValue, Row } from "../../src/store/column.js";
import type { Database } from "../../src/store/database.js";
import type { Connection, Parameter } from "../../src/store/driver-connection.js";

/** Every table that holds what was loaded, and its key. */
const tables: Readonly<Record<string, readonly string[]>> = {
  progress: ["id"],
  block: ["height"],
  market: ["market_id"],
  market_data: ["market_id"],
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
};

/** The store's name is the operator's to change; whose turn it is to load changes without a block. */
const freeColumns: ReadonlySet<string> = new Set(["store_id", "loader_id", "loader_beat"]);

type MutableRow = Record<string, ColumnValue>;

/** Rows that are taken out of a table, and rows that take their place. */
export interface Fault {
  readonly kind: "edit" | "delete" | "insert" | "swap";
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

  private constructor(database: Database, columns: ReadonlyMap<string, readonly string[]>, seed: number) {
    this.#database = database;
    this.#columns = columns;
    this.#random = new Random(seed, "faults");
  }

  static async create(database: Database, seed: number): Promise<FaultPlanter> {
    const columns = new Map<string, string[]>(Object.keys(tables).map((table) => [table, []]));
    const rows = await database.query<{ t: string; c: string }>(
      `SELECT CAST(table_name AS CHAR) AS t, CAST(column_name AS CHAR) AS c FROM information_schema.columns
       WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position`,
    );
    for (const { t, c } of rows) columns.get(String(t))?.push(String(c));
    return new FaultPlanter(database, columns, seed);
  }

  /** A fault that the server takes: what breaks a key of the table is tried with other values. */
  async plant(): Promise<Fault> {
    for (;;) {
      const fault = await this.#make();
      if (fault === undefined) continue;
      try {
        await this.#replace(fault.table, fault.before, fault.after);
        return fault;
      } catch (error) {
        if ((error as { code?: string }).code !== "ER_DUP_ENTRY") throw error;
      }
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
