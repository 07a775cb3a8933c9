import type { LiveOrder } from "../domain/order-book.js";
import {
  type AccountRow,
  accountRows,
  type EntryClassRow,
  entryClassRows,
  loadAccounts,
} from "../store/account-table.js";
import { type BlockRow, blockRows } from "../store/block-table.js";
import { type BundleRow, bundleRows, type SignatureRow, signatureRows } from "../store/bundle-table.js";
import type { Connection } from "../store/connection/connection.js";
import {
  type DepthRow,
  depthRows,
  type LevelRow,
  levelRows,
  prunesTombstones,
  pruneTombstones,
  type VenueMarketRow,
  venueMarketRows,
  writeLiveOrders,
} from "../store/depth-table.js";
import { writePast } from "../store/history-table.js";
import { insertLedgerEntries, loadLedgerEntries } from "../store/ledger-entry-table.js";
import {
  type AssetRow,
  assetRows,
  type KeptWhole,
  marketDataRows,
  marketRows,
  type TradeRow,
  tradeRows,
} from "../store/market-table.js";
import { advanceProgress, type Progress, type ProgressWriter } from "../store/progress-table.js";
import { StatementGroup } from "../store/statement-group.js";
import { type RowSum, writeTableDigests } from "../store/table-digest-table.js";
import { insertRows, type RowText, rowsWorthLoading, writeRows } from "../store/table-rows.js";
import { type TradeBatch, writeTradeProgress, writeTrades } from "../store/trade-table.js";
import type { HistoryBatch, HistoryFold } from "./history-fold.js";
import type { TradeFold } from "./trade-fold.js";

/**
 * The changes of whole blocks, to be written in one transaction. A row that several blocks changed is included once, in
 * its last version. The result equals that of one transaction per block.
 */
export type Batch = Readonly<ReturnType<typeof emptyBatch>>;

/** A batch with its ledger entries and its progress. */
export interface WholeBatch extends Batch {
  readonly text: RowText;
  readonly accounts: readonly AccountRow[];
  readonly classes: readonly EntryClassRow[];
  /** Undefined: the past of books is not kept. */
  readonly past: HistoryBatch | undefined;
  readonly allTrades: TradeBatch;
  readonly reached: Omit<Progress, "prunedSequence">;
}

/** An empty batch. */
export function emptyBatch() {
  return {
    blocks: new Map<bigint, BlockRow>(),
    markets: new Map<string, KeptWhole>(),
    marketData: new Map<string, KeptWhole>(),
    assets: new Map<string, AssetRow>(),
    depths: new Map<string, DepthRow>(),
    levels: new Map<string, LevelRow>(),
    orders: new Map<string, LiveOrder | undefined>(),
    trades: new Map<string, TradeRow>(),
    venueMarkets: new Map<string, VenueMarketRow>(),
    bundles: new Map<string, BundleRow>(),
    signatures: [] as SignatureRow[],
  };
}

/** Rows besides ledger entries. */
export function rowCount(batch: Batch): number {
  return Object.values(batch).reduce((sum, rows) => sum + (Array.isArray(rows) ? rows.length : rows.size), 0);
}

/** What tables add up to when a batch is written. */
export interface SumsAfter {
  /** Those of `table_digest`, by their names. */
  readonly tables: ReadonlyMap<string, RowSum>;
  readonly assets: RowSum;
}

/** Options for writing a batch. */
export interface WriteOptions extends Omit<ProgressWriter, "keepsPast"> {
  /** Use LOAD DATA LOCAL for many rows. */
  readonly localInfile: boolean;
  /** The sums of the tables including the batch. May be called repeatedly. */
  readonly sumsAfter: (batch: WholeBatch, progress: Progress) => SumsAfter;
  readonly prunePast?: HistoryFold["prune"] | undefined;
  readonly pruneTrades?: TradeFold["prune"] | undefined;
}

/** Writes a batch within a transaction; returns the progress for the next one. */
export async function writeBatch(
  connection: Connection,
  batch: WholeBatch,
  before: Progress | undefined,
  { localInfile, sumsAfter, prunePast, pruneTrades, ...writer }: WriteOptions,
): Promise<Progress> {
  const loads = (rows: number) => localInfile && rows >= rowsWorthLoading;
  const { past } = batch;
  await advanceProgress(connection, before, batch.reached, { ...writer, keepsPast: past !== undefined });
  const group = new StatementGroup(connection);
  await writeRows(group, blockRows, [...batch.blocks.values()]);
  await writeRows(group, marketRows, [...batch.markets.values()]);
  await writeRows(group, marketDataRows, [...batch.marketData.values()]);
  await writeRows(group, assetRows, [...batch.assets.values()]);
  await writeRows(group, depthRows, [...batch.depths.values()]);
  await writeRows(group, levelRows, [...batch.levels.values()]);
  await writeLiveOrders(group, batch.orders);
  await writeRows(group, tradeRows, [...batch.trades.values()]);
  await writeRows(group, venueMarketRows, [...batch.venueMarkets.values()]);
  if (loads(batch.accounts.length)) await loadAccounts(connection, batch.accounts);
  else await insertRows(group, accountRows, batch.accounts);
  await insertRows(group, entryClassRows, batch.classes);
  if (loads(batch.text.rows)) await loadLedgerEntries(connection, batch.text);
  else await insertLedgerEntries(group, batch.text);
  await writeRows(group, bundleRows, [...batch.bundles.values()]);
  await writeRows(group, signatureRows, batch.signatures);
  await writeTrades(group, batch.allTrades);
  await pruneTrades?.(connection, group, batch.allTrades, batch.reached.timeNs);
  await writeTradeProgress(group, batch.allTrades);
  if (past !== undefined) {
    await writePast(group, past);
    await prunePast?.(connection, group, past, batch.reached.timeNs);
    await writeTableDigests(group, past.sums, "history_digest");
  }
  let prunedSequence = before?.prunedSequence ?? 0n;
  if (prunesTombstones(before?.height, batch.reached.height)) {
    await group.send();
    prunedSequence = await pruneTombstones(connection, batch.reached.height, prunedSequence);
  }
  const progress = { ...batch.reached, prunedSequence };
  const { tables, assets } = sumsAfter(batch, progress);
  await writeTableDigests(group, tables);
  if (batch.assets.size > 0) await writeTableDigests(group, new Map([[assetRows.table, assets]]), "history_digest");
  await group.send();
  return progress;
}
