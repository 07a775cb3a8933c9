import type { LiveOrder } from "../domain/order-book.js";
import {
  type AccountRow,
  type EntryClassRow,
  insertAccounts,
  loadAccounts,
  writeEntryClasses,
} from "../store/account-table.js";
import { type BlockRow, writeBlocks } from "../store/block-table.js";
import { rowsWorthLoading } from "../store/bulk-load.js";
import { type BundleRow, type SignatureRow, writeBundles, writeSignatures } from "../store/bundle-table.js";
import {
  type DepthRow,
  type LevelRow,
  pruneTombstones,
  writeDepths,
  writeLevels,
  writeLiveOrders,
} from "../store/depth-table.js";
import type { Connection } from "../store/driver-connection.js";
import { insertLedgerEntries, type LedgerText, loadLedgerEntries } from "../store/ledger-entry-table.js";
import { type KeptWhole, marketDataRows, marketRows, writeKeptWhole } from "../store/market-table.js";
import { advanceProgress, type Progress, type ProgressWriter } from "../store/progress-table.js";
import type { RowSum } from "../store/row-hash.js";
import { writeTableDigests } from "../store/table-digest-table.js";
import { type TradeRow, writeLastTrades } from "../store/trade-table.js";
import { type VenueMarketRow, writeVenueMarkets } from "../store/venue-market-table.js";

/**
 * The changes of whole blocks, to be written in one transaction. A row that several blocks changed is included once, in
 * its last version. The result equals that of one transaction per block.
 */
export interface Batch {
  readonly blocks: Map<bigint, BlockRow>;
  readonly markets: Map<string, KeptWhole>;
  readonly marketData: Map<string, KeptWhole>;
  readonly depths: Map<string, DepthRow>;
  readonly levels: Map<string, LevelRow>;
  readonly orders: Map<string, LiveOrder | undefined>;
  readonly trades: Map<string, TradeRow>;
  readonly venueMarkets: Map<string, VenueMarketRow>;
  readonly bundles: Map<string, BundleRow>;
  readonly signatures: SignatureRow[];
}

/** A batch with its ledger entries and its progress. */
export interface WholeBatch extends Batch {
  readonly text: LedgerText;
  readonly accounts: readonly AccountRow[];
  readonly classes: readonly EntryClassRow[];
  readonly reached: Omit<Progress, "prunedSequence">;
}

/** An empty batch. */
export function emptyBatch(): Batch {
  return {
    blocks: new Map(),
    markets: new Map(),
    marketData: new Map(),
    depths: new Map(),
    levels: new Map(),
    orders: new Map(),
    trades: new Map(),
    venueMarkets: new Map(),
    bundles: new Map(),
    signatures: [],
  };
}

/** Rows besides ledger entries. */
export function rowCount(batch: Batch): number {
  return (
    batch.blocks.size +
    batch.markets.size +
    batch.marketData.size +
    batch.depths.size +
    batch.levels.size +
    batch.orders.size +
    batch.trades.size +
    batch.venueMarkets.size +
    batch.bundles.size +
    batch.signatures.length
  );
}

/** Options for writing a batch. */
export interface WriteOptions extends ProgressWriter {
  /** Use LOAD DATA LOCAL for many rows. */
  readonly localInfile: boolean;
  /** The sums of the tables including the batch. May be called repeatedly. */
  readonly sumsAfter: (batch: WholeBatch, progress: Progress) => ReadonlyMap<string, RowSum>;
}

/** Writes a batch within a transaction; returns the progress for the next one. */
export async function writeBatch(
  connection: Connection,
  batch: WholeBatch,
  before: Progress | undefined,
  { localInfile, sumsAfter, ...writer }: WriteOptions,
): Promise<Progress> {
  const loads = (rows: number) => localInfile && rows >= rowsWorthLoading;
  await advanceProgress(connection, before, batch.reached, writer);
  await writeBlocks(connection, [...batch.blocks.values()]);
  await writeKeptWhole(connection, marketRows, [...batch.markets.values()]);
  await writeKeptWhole(connection, marketDataRows, [...batch.marketData.values()]);
  await writeDepths(connection, [...batch.depths.values()]);
  await writeLevels(connection, [...batch.levels.values()]);
  await writeLiveOrders(connection, batch.orders);
  await writeLastTrades(connection, [...batch.trades.values()]);
  await writeVenueMarkets(connection, [...batch.venueMarkets.values()]);
  await (loads(batch.accounts.length) ? loadAccounts : insertAccounts)(connection, batch.accounts);
  await writeEntryClasses(connection, batch.classes);
  await (loads(batch.text.rows) ? loadLedgerEntries : insertLedgerEntries)(connection, batch.text);
  await writeBundles(connection, [...batch.bundles.values()]);
  await writeSignatures(connection, batch.signatures);
  const prunedSequence = await pruneTombstones(connection, batch.reached.height, before?.prunedSequence ?? 0n);
  const progress = { ...batch.reached, prunedSequence };
  await writeTableDigests(connection, sumsAfter(batch, progress));
  return progress;
}
