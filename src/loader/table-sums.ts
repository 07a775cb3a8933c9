import type { BlockMark } from "../store/block-table.js";
import { bundleRows, signatureRows } from "../store/bundle-table.js";
import type { Connection, Parameter } from "../store/connection/connection.js";
import { depthRows, levelRows, liveOrderRows, venueMarketRows } from "../store/depth-table.js";
import { assetRows, marketDataRows, marketRows, tradeRows } from "../store/market-table.js";
import { type Progress, progressRows } from "../store/progress-table.js";
import {
  addRow,
  digestedTables,
  hasTableDigests,
  keyOf,
  noRows,
  placeOf,
  type RowSum,
  readTableDigests,
  rowHash,
} from "../store/table-digest-table.js";
import { readRows, type Table, type TableRows } from "../store/table-rows.js";
import type { SumsAfter, WholeBatch } from "./batch.js";

/** What a row adds to the sum of its table. */
interface Share {
  readonly hash: bigint;
  readonly place: bigint;
}

/** The rows of one table, by their keys, and what they add up to. */
class TableSum {
  readonly #shares = new Map<string, Share>();
  sum: RowSum = noRows;

  constructor(private readonly table: Table) {}

  /** Adds a row in place of the one with its key, unless that one stays. @returns the key */
  put(values: readonly Parameter[]): string {
    const key = keyOf(this.table, values);
    if (this.table.keepsFirst === true && this.#shares.has(key)) return key;
    this.remove(key);
    const share = { hash: rowHash(this.table.table, values), place: placeOf(this.table, values) };
    this.#shares.set(key, share);
    this.sum = addRow(this.sum, share.hash, share.place);
    return key;
  }

  remove(key: string): void {
    const share = this.#shares.get(key);
    if (share === undefined) return;
    this.#shares.delete(key);
    this.sum = addRow(this.sum, share.hash, share.place, -1n);
  }

  place(key: string): bigint {
    return this.#shares.get(key)?.place ?? 0n;
  }
}

/** The rows of a store, and what its last loader wrote that they add up to. */
type SumsStart = Readonly<Awaited<ReturnType<typeof readSumsStart>>>;

/** Reads where the loader goes on, in the snapshot of the progress. */
export async function readSumsStart(connection: Connection, newest: BlockMark | undefined) {
  const rows = new Map<string, Parameter[][]>();
  for (const table of digestedTables) rows.set(table.table, await readRows(connection, table));
  const ofHistory = await readTableDigests(connection, "history_digest");
  return {
    rows,
    assets: await readRows(connection, assetRows),
    digests: await readTableDigests(connection),
    assetDigest: ofHistory.get(assetRows.table) ?? noRows,
    /** Whether the newest block has a digest. */
    isDigested: newest?.digest !== undefined,
  };
}

/**
 * What the rows of each table add up to, kept as the loader changes them: about 200 bytes for each row of a book, an
 * order or a market.
 */
export class TableSums {
  readonly #tables = new Map(digestedTables.map((table) => [table.table, new TableSum(table)]));
  /** In `history_digest`: earlier programs do not know the table. */
  readonly #assets = new TableSum(assetRows);
  /** Keys of levels that have vanished. */
  readonly #tombstones = new Set<string>();
  /** Tables whose digest is missing, though others are there: it stays missing, because nobody knows what it was. */
  readonly #missing = new Set<string>();
  #applied: WholeBatch | undefined;

  /** Goes on from the last load; where only programs without digests have written, the sums begin anew. */
  constructor({ rows, assets, digests, assetDigest, isDigested }: SumsStart) {
    for (const [name, table] of this.#tables) {
      for (const values of rows.get(name) ?? []) {
        const key = table.put(values);
        if (name === levelRows.table && values[3] === 0n && values[4] === 0n) this.#tombstones.add(key);
      }
    }
    for (const values of assets) this.#assets.put(values);
    this.#assets.sum = assetDigest;
    if (!hasTableDigests(digests) && !isDigested) return;
    // Not what is there now: a row that was changed by others stays wrong.
    for (const [name, table] of this.#tables) {
      const sum = digests.get(name);
      if (sum === undefined) this.#missing.add(name);
      else table.sum = sum;
    }
  }

  /** What the tables add up to when a batch is written, by their names. The same batch counts once. */
  readonly after = (batch: WholeBatch, progress: Progress): SumsAfter => {
    if (this.#applied !== batch) this.#apply(batch);
    this.#applied = batch;
    const levels = this.#table(levelRows);
    for (const key of this.#tombstones) {
      if (levels.place(key) > progress.prunedSequence) continue;
      this.#tombstones.delete(key);
      levels.remove(key);
    }
    this.#table(progressRows).put(progressRows.values(progress));
    const known = [...this.#tables].filter(([name]) => !this.#missing.has(name));
    return { tables: new Map(known.map(([name, { sum }]) => [name, sum])), assets: this.#assets.sum };
  };

  #apply(batch: WholeBatch): void {
    this.#put(marketRows, batch.markets.values());
    this.#put(marketDataRows, batch.marketData.values());
    this.#put(depthRows, batch.depths.values());
    this.#put(tradeRows, batch.trades.values());
    this.#put(venueMarketRows, batch.venueMarkets.values());
    for (const asset of batch.assets.values()) this.#assets.put(assetRows.values(asset));
    const levels = this.#table(levelRows);
    for (const level of batch.levels.values()) {
      const key = levels.put(levelRows.values(level));
      if (level.volume === 0n && level.numberOfOrders === 0n) this.#tombstones.add(key);
      else this.#tombstones.delete(key);
    }
    const orders = this.#table(liveOrderRows);
    for (const [id, order] of batch.orders) {
      if (order === undefined) orders.remove(id);
      else orders.put(liveOrderRows.values(order));
    }
    this.#put(bundleRows, batch.bundles.values());
    this.#put(signatureRows, batch.signatures);
  }

  #put<R>(table: TableRows<R>, rows: Iterable<R>): void {
    const sum = this.#table(table);
    for (const row of rows) sum.put(table.values(row));
  }

  #table({ table }: Table): TableSum {
    const sum = this.#tables.get(table);
    if (sum === undefined) throw new Error(`there is no digest of ${table}`);
    return sum;
  }
}
