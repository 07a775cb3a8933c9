import type { BookLevel } from "../domain/order-book.js";
import type { Connection } from "./connection/connection.js";
import { readInSnapshot } from "./database.js";
import type { DepthRow as StoredDepthRow } from "./depth-table.js";
import {
  type AssetRow,
  assetRows,
  type KeptWhole,
  marketDataRows,
  marketRows,
  type TradeRow,
  tradeRows,
} from "./market-table.js";
import { progressSql, type StoreProgress } from "./progress-table.js";

/** The depth state of a market. */
export interface DepthRow extends StoredDepthRow {
  /** 1: the venue's next snapshot is needed before the book is right again. Null: no venue's market. */
  readonly stale?: number | null;
}

/** A price level; volume 0 and no orders: it vanished. */
export interface LevelRow extends BookLevel {
  /** Of the block that last changed it, if it is one of a whole book. */
  readonly changedSequence?: bigint;
}

/** Rows newer than a place, or all rows, of one snapshot. */
export interface Changes {
  readonly progress: StoreProgress;
  readonly markets: readonly KeptWhole[];
  readonly marketData: readonly KeptWhole[];
  readonly assets: readonly AssetRow[];
  readonly depths: readonly DepthRow[];
  readonly levels: readonly LevelRow[];
  readonly trades: readonly TradeRow[];
  /** The highest id of a trade; 0: there is none. */
  readonly lastTradeId: bigint;
  /** True: these are all rows, and `levels` are complete books. False: only changes. Vanished levels are there in both. */
  readonly wholeBooks: boolean;
}

/** The place up to which a reader has read. */
export type Place = Pick<StoreProgress, "storeId" | "chainId" | "streamSequence">;

/** Whether two places are of the same chain in the same store, so that their sequence numbers are comparable. */
export function isSameStore(a: Place, b: Place): boolean {
  return a.storeId === b.storeId && a.chainId === b.chainId;
}

const depthsSql = `
  SELECT market_id AS marketId, sequence_number AS sequenceNumber,
    published_sequence_number AS publishedSequenceNumber, changed_sequence AS changedSequence, stale
  FROM market_depth LEFT JOIN venue_market USING (market_id)`;

const levelColumns = "market_id AS marketId, side, price, volume, number_of_orders AS numberOfOrders";

/**
 * Rows newer than a place, in one snapshot. All rows for a new reader, after a change of store, and for a reader so far
 * behind that tombstones may have been pruned. Usually one round trip: only the snapshot itself tells whether the newer
 * rows are complete; if not, a second one reads everything.
 */
export async function readChanges(connection: Connection, place: Place | undefined): Promise<Changes | undefined> {
  if (place !== undefined) {
    const newer = await readSnapshot(connection, place.streamSequence);
    if (newer === undefined || leadsOn(newer.progress, place)) return newer;
  }
  return readSnapshot(connection, undefined);
}

function leadsOn(progress: StoreProgress, place: Place): boolean {
  return isSameStore(progress, place) && progress.prunedSequence <= place.streamSequence;
}

async function readSnapshot(connection: Connection, since: bigint | undefined): Promise<Changes | undefined> {
  const newer = `changed_sequence > ${since ?? 0n}`;
  const [[progress], markets, marketData, assets, depths, levels, trades, [last]] = await readInSnapshot<
    [StoreProgress, KeptWhole, KeptWhole, AssetRow, DepthRow, LevelRow, TradeRow, { id: bigint | null }]
  >(
    connection,
    progressSql,
    `${marketRows.select} WHERE ${newer}`,
    `${marketDataRows.select} WHERE ${newer}`,
    `${assetRows.select} WHERE ${newer}`,
    `${depthsSql} WHERE ${newer}`,
    // All rows: vanished levels tell a process that has just started what changed since a recent place.
    since === undefined
      ? `SELECT ${levelColumns}, changed_sequence AS changedSequence FROM price_level`
      : `SELECT ${levelColumns} FROM price_level WHERE ${newer}`,
    `${tradeRows.select} WHERE ${newer}`,
    "SELECT MAX(id) AS id FROM trade",
  );
  if (progress === undefined) return undefined;
  const rows = { markets, marketData, assets, depths, levels, trades };
  return { progress, ...rows, lastTradeId: last?.id ?? 0n, wholeBooks: since === undefined };
}
