import type { ChangedLevel, DepthPlace, LiveOrder } from "../domain/order-book.js";
import { type BookSide, sides } from "../domain/price-ladder.js";
import type { Connection } from "./driver-connection.js";
import type { TableRows } from "./table-rows.js";
import { upsertRows } from "./upsert.js";

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

export const depthRows: TableRows<DepthRow> = {
  table: "market_depth",
  columns: ["market_id", "sequence_number", "published_sequence_number", "changed_sequence"],
  keyColumns: 1,
  values: (row) => [row.marketId, row.sequenceNumber, row.publishedSequenceNumber, row.changedSequence],
};

export const levelRows: TableRows<LevelRow> = {
  table: "price_level",
  columns: ["market_id", "side", "price", "volume", "number_of_orders", "changed_sequence"],
  keyColumns: 3,
  values: (row) => [row.marketId, row.side, row.price, row.volume, row.numberOfOrders, row.changedSequence],
};

export const liveOrderRows: TableRows<LiveOrder> = {
  table: "live_order",
  columns: ["order_id", "market_id", "side", "price", "remaining"],
  keyColumns: 1,
  values: (order) => [order.id, order.marketId, order.side, order.price, order.remaining],
};

/** Every order that rests in a book, and the numbers of every market that has any. */
export async function readBooks(connection: Connection): Promise<{ orders: LiveOrder[]; places: DepthPlace[] }> {
  const orders = await connection.query<{
    order_id: string;
    market_id: string;
    side: number;
    price: string;
    remaining: bigint;
  }>("SELECT order_id, market_id, side, price, remaining FROM live_order");
  const places = await connection.query<{
    market_id: string;
    sequence_number: bigint;
    published_sequence_number: bigint;
  }>("SELECT market_id, sequence_number, published_sequence_number FROM market_depth");
  return {
    orders: orders.map((row) => ({
      id: row.order_id,
      marketId: row.market_id,
      side: toSide(row.side),
      price: row.price,
      remaining: row.remaining,
    })),
    places: places.map((row) => ({
      marketId: row.market_id,
      sequenceNumber: row.sequence_number,
      publishedSequenceNumber: row.published_sequence_number,
    })),
  };
}

/** Stores the numbers of markets. */
export async function writeDepths(connection: Connection, rows: readonly DepthRow[]): Promise<void> {
  await upsertRows(connection, depthRows, rows);
}

/** Stores changed levels, vanished ones as tombstones. */
export async function writeLevels(connection: Connection, rows: readonly LevelRow[]): Promise<void> {
  await upsertRows(connection, levelRows, rows);
}

/** Stores orders that rest, and forgets those that are gone (undefined). */
export async function writeLiveOrders(
  connection: Connection,
  orders: ReadonlyMap<string, LiveOrder | undefined>,
): Promise<void> {
  const resting: LiveOrder[] = [];
  const gone: string[] = [];
  for (const [id, order] of orders) {
    if (order === undefined) gone.push(id);
    else resting.push(order);
  }
  for (let at = 0; at < gone.length; at += 500) {
    await connection.run("DELETE FROM live_order WHERE order_id IN (?)", [gone.slice(at, at + 500)]);
  }
  await upsertRows(connection, liveOrderRows, resting);
}

/**
 * Drops tombstones that are older than the retention, as a function of the height reached and nothing else: however
 * blocks were batched, the same rows are left. Called after the rows of the blocks are written.
 */
export async function pruneTombstones(connection: Connection, height: bigint, prunedSequence: bigint): Promise<bigint> {
  const aged = height - tombstoneRetentionBlocks;
  if (aged < 0n) return prunedSequence;
  const last = aged - (aged % tombstonePruneIntervalBlocks);
  const [row] = await connection.query<{ stream_sequence: bigint }>(
    "SELECT stream_sequence FROM block WHERE height <= ? ORDER BY height DESC LIMIT 1",
    [last],
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

/** A side of a book, by its column. */
export function toSide(side: number): BookSide {
  return side === sides.buy ? sides.buy : sides.sell;
}
