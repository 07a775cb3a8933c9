import type { BookLevel, ChangedLevel, DepthPlace, LiveOrder } from "../domain/order-book.js";
import type { Connection } from "./connection/connection.js";
import type { StatementRunner } from "./statement-group.js";
import { partsOf, rowTable, type TableRows, writeRows } from "./table-rows.js";

/**
 * The number of blocks for which a vanished level stays as a tombstone. A reader that lags less need not read whole books.
 */
export const tombstoneRetentionBlocks = 1_000n;

/** Tombstones are looked for whenever so many blocks have passed. */
export const tombstonePruneIntervalBlocks = 100n;

/** A level with its place in the stream of changes. */
export interface LevelRow extends ChangedLevel {
  readonly marketId: string;
  readonly changedSequence: bigint;
}

/** A market's numbers with their place in the stream of changes. */
export interface DepthRow extends DepthPlace {
  readonly changedSequence: bigint;
}

export const depthRows = rowTable<DepthRow>("market_depth", 1, [
  "marketId",
  "sequenceNumber",
  "publishedSequenceNumber",
  "changedSequence",
]);

export const levelRows = rowTable<LevelRow>("price_level", 3, [
  "marketId",
  "side",
  "price",
  "volume",
  "numberOfOrders",
  "changedSequence",
]);

export const liveOrderRows: TableRows<LiveOrder> = {
  table: "live_order",
  columns: ["order_id", "market_id", "side", "price", "remaining"],
  keyColumns: 1,
  values: (order) => [order.id, order.marketId, order.side, order.price, order.remaining],
};

/** Every order that rests in a book, and the numbers of every market that has any. */
export async function readBooks(connection: Connection): Promise<{ orders: LiveOrder[]; places: DepthPlace[] }> {
  const orders = await connection.query<LiveOrder>(
    "SELECT order_id AS id, market_id AS marketId, side, price, remaining FROM live_order",
  );
  const places = await connection.query<DepthRow>(depthRows.select);
  return { orders, places };
}

/** Stores orders that rest, and forgets those that are gone (undefined). */
export async function writeLiveOrders(
  connection: StatementRunner,
  orders: ReadonlyMap<string, LiveOrder | undefined>,
): Promise<void> {
  const resting: LiveOrder[] = [];
  const gone: string[] = [];
  for (const [id, order] of orders) {
    if (order === undefined) gone.push(id);
    else resting.push(order);
  }
  for (const ids of partsOf(gone)) await connection.run("DELETE FROM live_order WHERE order_id IN (?)", [ids]);
  await writeRows(connection, liveOrderRows, resting);
}

/** The newest block whose tombstones are dropped when a height is reached, which is at least the retention. */
function lastPruned(height: bigint): bigint {
  const aged = height - tombstoneRetentionBlocks;
  return aged - (aged % tombstonePruneIntervalBlocks);
}

/** Whether more tombstones are to be dropped at a height than at the one before. */
export function prunesTombstones(before: bigint | undefined, height: bigint): boolean {
  if (height < tombstoneRetentionBlocks) return false;
  return before === undefined || before < tombstoneRetentionBlocks || lastPruned(before) !== lastPruned(height);
}

/**
 * Drops tombstones that are older than the retention, as a function of the height reached and nothing else: however
 * blocks were batched, the same rows are left. Called after the rows of the blocks are written.
 */
export async function pruneTombstones(connection: Connection, height: bigint, prunedSequence: bigint): Promise<bigint> {
  const [row] = await connection.query<{ stream_sequence: bigint }>(
    "SELECT stream_sequence FROM block WHERE height <= ? ORDER BY height DESC LIMIT 1",
    [lastPruned(height)],
  );
  if (row === undefined || row.stream_sequence <= prunedSequence) return prunedSequence;
  await connection.run(
    `DELETE FROM price_level
     WHERE changed_sequence > ? AND changed_sequence <= ? AND volume = 0 AND number_of_orders = 0`,
    [prunedSequence, row.stream_sequence],
  );
  await connection.run("UPDATE progress SET pruned_sequence = ? WHERE id = 1", [row.stream_sequence]);
  return row.stream_sequence;
}

/** A market whose venue publishes price levels, and where the loader is with it. */
export interface VenueMarketRow {
  readonly marketId: string;
  readonly priceDecimals: number;
  readonly sizeDecimals: number;
  /** Levels a side; 0: all. */
  readonly depthMax: number;
  /** Of `marketd.events.v1.ChecksumAlgorithm`. */
  readonly checksumAlgorithm: number;
  /** The venue's own number of the last update in the book; undefined: it has none. */
  readonly venueSequence: bigint | undefined;
  /** Whether the book is not right before the next snapshot. */
  readonly stale: boolean;
}

export const venueMarketRows = rowTable<VenueMarketRow>("venue_market", 1, [
  "marketId",
  "priceDecimals",
  "sizeDecimals",
  "depthMax",
  "checksumAlgorithm",
  "venueSequence",
  "stale",
]);

/** Every such market, and the levels of their books. */
export async function readVenueMarkets(
  connection: Connection,
): Promise<{ markets: VenueMarketRow[]; levels: BookLevel[] }> {
  const markets = await connection.query<
    Omit<VenueMarketRow, "venueSequence" | "stale"> & { venueSequence: bigint | null; stale: number }
  >(venueMarketRows.select);
  const levels = await connection.query<BookLevel>(
    `SELECT market_id AS marketId, side, price, volume, number_of_orders AS numberOfOrders
     FROM venue_market JOIN price_level USING (market_id) WHERE volume > 0`,
  );
  return {
    markets: markets.map((row) => ({ ...row, venueSequence: row.venueSequence ?? undefined, stale: row.stale !== 0 })),
    levels,
  };
}
