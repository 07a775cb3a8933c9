import type { Progress } from "../store/progress-table.js";
import type { WholeBatch } from "./batch.js";
import type { BlockFold, FoldCounts } from "./block-fold.js";

/** The progress of a load. */
export interface LoadProgress {
  /** Whole blocks that were read. */
  readonly blocks: number;
  readonly events: number;
  readonly eventsPerSecond: number;
  /** Bytes read of this source, as stored, and in all if known. */
  readonly bytes: number;
  readonly totalBytes: number | undefined;
  /** The size of this source, if known. */
  readonly secondsLeft: number | undefined;
}

/** The result of a load. */
export interface LoadSummary extends FoldCounts {
  /** Rows written, by table. A row counts once per transaction that wrote it. */
  readonly rows: ReadonlyMap<string, number>;
  readonly seconds: number;
  /** False: the server refuses LOAD DATA LOCAL, and INSERT was used. */
  readonly localInfile: boolean;
  /** Whether a protocol upgrade ended the load. */
  readonly protocolUpgrade: boolean;
  /** The progress of the database; undefined if it is still empty. */
  readonly progress: Progress | undefined;
}

/** Measures a load. */
export class ProgressMeter {
  readonly rows = new Map<string, number>();
  readonly #startedMs = performance.now();
  #bytes = 0;
  #totalBytes: number | undefined;
  #sourceStarted = 0;

  constructor(private readonly fold: BlockFold) {}

  get seconds(): number {
    return (performance.now() - this.#startedMs) / 1_000;
  }

  beginSource(totalBytes: number | undefined): void {
    this.#bytes = 0;
    this.#totalBytes = totalBytes;
    this.#sourceStarted = this.seconds;
  }

  read(bytes: number): void {
    this.#bytes += bytes;
  }

  written(batch: WholeBatch): void {
    const tables = {
      block: batch.blocks.size,
      market: batch.markets.size,
      market_data: batch.marketData.size,
      market_depth: batch.depths.size,
      price_level: batch.levels.size,
      last_trade: batch.trades.size,
      trade: batch.allTrades.trades.length,
      candle: batch.allTrades.candles.length,
      venue_market: batch.venueMarkets.size,
      account: batch.accounts.length,
      entry_class: batch.classes.length,
      ledger_entry: batch.text.rows,
      signer_removed_bundle: batch.bundles.size,
      node_signature: batch.signatures.length,
      live_order: batch.orders.size,
    };
    for (const [table, count] of Object.entries(tables)) this.rows.set(table, (this.rows.get(table) ?? 0) + count);
  }

  get progress(): LoadProgress {
    const { blocks, events } = this.fold.counts;
    const seconds = this.seconds;
    const part = this.#totalBytes === undefined || this.#bytes === 0 ? undefined : this.#bytes / this.#totalBytes;
    return {
      blocks,
      events,
      eventsPerSecond: seconds === 0 ? 0 : events / seconds,
      bytes: this.#bytes,
      totalBytes: this.#totalBytes,
      secondsLeft: part === undefined ? undefined : Math.max(0, (seconds - this.#sourceStarted) * (1 / part - 1)),
    };
  }
}

/** The summary as lines for a terminal. */
export function renderSummary(summary: LoadSummary): string[] {
  const { blocks, events, seconds, alreadyLoaded, outsideBlocks, skipped, unknownFields } = summary;
  const rate = seconds > 0 ? Math.round(events / seconds) : 0;
  const lines = [
    `${count(blocks, "block")} and ${count(events, "event")} in ${seconds.toFixed(1)} s (${rate} events/s)`,
  ];
  if (summary.progress !== undefined) {
    const { chainId, height, streamSequence } = summary.progress;
    lines.push(`the database holds chain ${chainId} up to block ${height}, stream sequence ${streamSequence}`);
  }
  const written = [...summary.rows].filter(([, rows]) => rows > 0).map(([table, rows]) => `${table} ${rows}`);
  lines.push(written.length === 0 ? "rows written: none" : `rows written: ${written.join(", ")}`);
  if (alreadyLoaded > 0) lines.push(`${count(alreadyLoaded, "event")} skipped: not after the last one in the database`);
  if (outsideBlocks > 0) lines.push(`${count(outsideBlocks, "event")} outside of blocks ignored`);
  if (skipped.size > 0) {
    lines.push(`kinds that feed nothing: ${[...skipped].map(([kind, events]) => `${kind} ${events}`).join(", ")}`);
  }
  if (unknownFields > 0) lines.push(`${count(unknownFields, "event")} with unknown fields`);
  lines.push(
    `best bid and offer: compared with the network's own ${summary.bestPricesCompared} times, ${summary.bestPricesDiffering} differences`,
  );
  for (const difference of summary.differences) lines.push(`  ${difference}`);
  const { applied, old, ignored, stale } = summary.venues;
  if (applied + old + ignored > 0) {
    lines.push(
      `venues: ${count(applied, "book update")}, ${old} older than their book, ${ignored} of stale markets; markets became stale ${count(stale, "time")}`,
    );
  }
  if (!summary.localInfile) lines.push("the server forbids LOAD DATA LOCAL: entries were inserted, which is slower");
  if (summary.protocolUpgrade) lines.push("a protocol upgrade ended the load; load again to continue after it");
  return lines;
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
