import type { BookLevel } from "../domain/order-book.js";
import { toSide } from "./depth-table.js";
import type { Connection } from "./driver-connection.js";
import type { TableRows } from "./table-rows.js";
import { upsertRows } from "./upsert.js";

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

export const venueMarketRows: TableRows<VenueMarketRow> = {
  table: "venue_market",
  columns: [
    "market_id",
    "price_decimals",
    "size_decimals",
    "depth_max",
    "checksum_algorithm",
    "venue_sequence",
    "stale",
  ],
  keyColumns: 1,
  values: (row) => [
    row.marketId,
    row.priceDecimals,
    row.sizeDecimals,
    row.depthMax,
    row.checksumAlgorithm,
    row.venueSequence ?? null,
    row.stale ? 1 : 0,
  ],
};

/** Every such market, and the levels of their books. */
export async function readVenueMarkets(
  connection: Connection,
): Promise<{ markets: VenueMarketRow[]; levels: BookLevel[] }> {
  const markets = await connection.query<{
    market_id: string;
    price_decimals: number;
    size_decimals: number;
    depth_max: number;
    checksum_algorithm: number;
    venue_sequence: bigint | null;
    stale: number;
  }>(
    `SELECT market_id, price_decimals, size_decimals, depth_max, checksum_algorithm, venue_sequence, stale
     FROM venue_market`,
  );
  const levels = await connection.query<{
    market_id: string;
    side: number;
    price: string;
    volume: bigint;
    number_of_orders: bigint;
  }>(
    `SELECT market_id, side, price, volume, number_of_orders
     FROM venue_market JOIN price_level USING (market_id) WHERE volume > 0`,
  );
  return {
    markets: markets.map((row) => ({
      marketId: row.market_id,
      priceDecimals: row.price_decimals,
      sizeDecimals: row.size_decimals,
      depthMax: row.depth_max,
      checksumAlgorithm: row.checksum_algorithm,
      venueSequence: row.venue_sequence ?? undefined,
      stale: row.stale !== 0,
    })),
    levels: levels.map((row) => ({
      marketId: row.market_id,
      side: toSide(row.side),
      price: row.price,
      volume: row.volume,
      numberOfOrders: row.number_of_orders,
    })),
  };
}

/** Stores where the loader is with these markets. */
export async function writeVenueMarkets(connection: Connection, rows: readonly VenueMarketRow[]): Promise<void> {
  await upsertRows(connection, venueMarketRows, rows);
}
