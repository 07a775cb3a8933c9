import {
  type BookUpdate,
  changesPerSegment,
  decodeUpdate,
  encodeKeyframe,
  encodeUpdate,
  numberBase,
  SegmentEncoder,
  sealedDigest,
  startDigest,
} from "../domain/book-history.js";
import type { MarketChange, OrderBooks } from "../domain/order-book.js";
import { sortLevels } from "../domain/price-ladder.js";
import type { Connection } from "../store/connection/connection.js";
import type { VenueMarketRow } from "../store/depth-table.js";
import type { PastBlock } from "../store/history-reads.js";
import {
  type BookChangeRow,
  type BookHistoryRow,
  bookChangeRows,
  bookHistoryRows,
  digestedPast,
  dropSegments,
  firstChangesPart,
  historySequenceRows,
  type PastBatch,
  readSegments,
  type SegmentPartRow,
  type SegmentRow,
  type StoredPast,
  segmentRowText,
  segmentStates,
  toParts,
} from "../store/history-table.js";
import type { StatementGroup } from "../store/statement-group.js";
import { addSum, noRows, type RowSum, sumOf } from "../store/table-digest-table.js";
import { writeRows } from "../store/table-rows.js";
import type { Decimals } from "./market-decimals.js";
import { addTo, type PastSums, replaceRow, startSums } from "./past-sums.js";

/** Markets whose oldest segments one transaction drops, and segments of each: a bounded time of the server's. */
export const prunedMarketsMax = 16;
export const prunedSegmentsMax = 32;

/** The past of the books as the last loader that kept it has left it. */
export interface HistoryStart {
  readonly historySequence: bigint;
  readonly pasts: readonly StoredPast[];
  readonly digests: ReadonlyMap<string, RowSum>;
  /** Undefined: it is written up to the newest block. */
  readonly gap: HistoryGap | undefined;
}

/** Blocks that were loaded without their past, by an earlier release or with `--keep-books off`. */
export interface HistoryGap {
  /** The last block whose past is written, as far as that is known; with `height` 0 if there is none. */
  readonly after: PastBlock;
  /** The newest block. */
  readonly place: PastBlock;
  readonly markets: ReadonlyMap<string, { readonly decimals: Decimals; readonly stale: boolean }>;
}

/** What a block did. */
export interface BlockOutcome {
  readonly changes: readonly MarketChange[];
  /** Of the markets that it announced or updated. */
  readonly decimals: ReadonlyMap<string, Decimals>;
  readonly venueMarkets: readonly Pick<VenueMarketRow, "marketId" | "stale">[];
}

/** The past of a market, as far as the next blocks need it. */
interface MarketPast {
  newest: SegmentRow;
  /** `startDigest` of the newest. */
  newestDigest: Uint8Array;
  encoder: SegmentEncoder;
  oldestSequence: bigint;
  oldestDigest: Uint8Array;
  /** When the segment after the oldest begins: undefined while there is none. */
  secondTimeNs: bigint | undefined;
  /** Updates of the newest that were not taken yet. */
  pending: BookUpdate[];
  /** What the updates of the newest that were taken add up to. */
  stored: RowSum;
  /** The row of `book_history`, as it was taken last. */
  written: BookHistoryRow | undefined;
}

/** The batch of a past, and what its tables add up to with it. */
export interface HistoryBatch extends PastBatch {
  readonly sums: PastSums;
  /** The rows of markets whose oldest segments it drops, once that was worked out. */
  pruned?: readonly BookHistoryRow[];
}

const noDigest = new Uint8Array();

/**
 * Folds the changes of blocks into segments of the books' past (docs/internals.md, "The past of books"). What is written
 * is a function of the events alone: segments do not depend on how blocks were batched, or on restarts.
 */
export class HistoryFold {
  readonly #books: OrderBooks;
  readonly #keepNs: bigint | undefined;
  readonly #markets = new Map<string, MarketPast>();
  #sequence: bigint;
  readonly #sums: PastSums;
  #segments = new Map<string, SegmentRow>();
  #parts: SegmentPartRow[] = [];
  #sealed = new Set<string>();
  /** Markets with pending updates, and those whose row of `book_history` changes. */
  readonly #grown = new Set<MarketPast>();
  readonly #moved = new Set<MarketPast>();
  /** Rows and bytes of the batch, about. */
  rows = 0;
  bytes = 0;

  /** @param keepNs how much of the past is kept before the newest block, in nanoseconds; undefined: all */
  constructor(books: OrderBooks, start: HistoryStart, keepNs: bigint | undefined) {
    this.#books = books;
    this.#keepNs = keepNs;
    const { digests } = start;
    for (const stored of start.pasts) {
      const past = toMarketPast(stored);
      this.#markets.set(stored.history.marketId, past);
      past.stored = sumOf(bookChangeRows, stored.changes.map(bookChangeRows.values));
      // Its row names a newest segment that was never written: the next batch corrects it.
      if (stored.history.newestSequence !== stored.newest.firstSequence) this.#moved.add(past);
    }
    this.#sequence = start.historySequence;
    const isFirst = start.historySequence === 0n && !digestedPast.some(({ table }) => digests.has(table));
    this.#sums = startSums(digestedPast, digests, isFirst);
    if (isFirst) replaceRow(this.#sums, historySequenceRows, undefined, this.#sequence);
    if (start.gap !== undefined) this.#passGap(start.gap);
  }

  /** Ends a block. The books are as of its end. */
  endBlock(place: PastBlock, { changes, decimals, venueMarkets }: BlockOutcome): void {
    const stale = new Map(venueMarkets.map((market) => [market.marketId, market.stale]));
    for (const marketId of new Set([...decimals.keys(), ...stale.keys()])) {
      this.#define(marketId, place, decimals.get(marketId), stale.get(marketId));
    }
    for (const change of changes) if (change.levels.length > 0) this.#append(change, place);
  }

  /** What was folded since the last time, up to an event. */
  take(streamSequence: bigint): HistoryBatch {
    const changes: BookChangeRow[] = [];
    for (const past of this.#grown) {
      const { marketId } = past.newest;
      const rows = past.pending.map((update) => {
        return { marketId, streamSequence: update.streamSequence, body: encodeUpdate(update) };
      });
      for (const row of rows) changes.push(row);
      const added = sumOf(bookChangeRows, rows.map(bookChangeRows.values));
      past.stored = addSum(past.stored, added);
      addTo(this.#sums, bookChangeRows, added);
      past.pending = [];
    }
    const histories = [...this.#moved].map((past) => this.#writeHistory(past, toHistory(past)));
    replaceRow(this.#sums, historySequenceRows, this.#sequence, streamSequence);
    this.#sequence = streamSequence;
    const batch = {
      segments: [...this.#segments.values()],
      parts: this.#parts,
      sealed: [...this.#sealed],
      sums: new Map(this.#sums),
      changes,
      histories,
    };
    for (const set of [this.#segments, this.#sealed, this.#grown, this.#moved]) set.clear();
    this.#parts = [];
    this.rows = 0;
    this.bytes = 0;
    return batch;
  }

  /**
   * Drops some of the segments that ended before the past that is kept, within the transaction of the batch that was
   * taken last, whose statements are in the group. May be called repeatedly.
   */
  readonly prune = async (
    connection: Connection,
    group: StatementGroup,
    batch: HistoryBatch,
    newestTimeNs: bigint,
  ): Promise<void> => {
    if (this.#keepNs === undefined) return;
    const beforeNs = newestTimeNs - this.#keepNs;
    const due = [...this.#markets.values()].filter(
      ({ secondTimeNs: second }) => second !== undefined && second <= beforeNs,
    );
    if (batch.pruned === undefined && due.length === 0) return;
    // The rows of the batch are among those that are read.
    await group.send();
    batch.pruned ??= await this.#findPruned(connection, due.slice(0, prunedMarketsMax), beforeNs);
    for (const { marketId, oldestSequence } of batch.pruned) await dropSegments(group, marketId, oldestSequence);
    await writeRows(group, bookHistoryRows, batch.pruned);
    const { table } = bookHistoryRows;
    const sum = this.#sums.get(table);
    if (sum !== undefined) batch.sums.set(table, sum);
  };

  async #findPruned(connection: Connection, due: readonly MarketPast[], beforeNs: bigint): Promise<BookHistoryRow[]> {
    const read = due.map(async (past) => {
      const { marketId } = past.newest;
      return { past, rows: await readSegments(connection, marketId, past.oldestSequence, prunedSegmentsMax + 2) };
    });
    // All reads come first: if one fails, nothing has changed in memory, and the next attempt reads again.
    return (await Promise.all(read)).flatMap(({ past, rows }) => this.#dropOldest(past, rows, beforeNs));
  }

  /**
   * Returns the row of `book_history` without the oldest segments, if any of them is to be dropped.
   * @param rows the oldest segments of the market, as they are stored
   */
  #dropOldest(past: MarketPast, rows: readonly SegmentRow[], beforeNs: bigint): BookHistoryRow[] {
    const last = rows.slice(0, prunedSegmentsMax + 1).findLastIndex(({ timeNs }) => timeNs <= beforeNs);
    const [before, oldest, second] = [rows[last - 1], rows[last], rows[last + 1]];
    const { newest, written } = past;
    if (before?.digest === undefined || oldest === undefined || written === undefined) return [];
    const hasLater = newest.firstSequence > oldest.firstSequence;
    past.oldestSequence = oldest.firstSequence;
    past.oldestDigest = before.digest;
    past.secondTimeNs = second?.timeNs ?? (hasLater ? newest.timeNs : undefined);
    // With the newest segment of this batch: the next batch, which is folded meanwhile, may start later ones.
    const row = { ...written, oldestSequence: oldest.firstSequence, oldestDigest: before.digest };
    return [this.#writeHistory(past, row)];
  }

  /** Replaces the row of `book_history` in its digest. */
  #writeHistory(past: MarketPast, row: BookHistoryRow): BookHistoryRow {
    replaceRow(this.#sums, bookHistoryRows, past.written, row);
    past.written = row;
    return row;
  }

  /** Nothing was written of the blocks from `after` on: what is known now begins anew. */
  #passGap({ after, place, markets }: HistoryGap): void {
    const lost = { ...after, streamSequence: after.streamSequence + 1n };
    if (lost.streamSequence < place.streamSequence) {
      // Also of a market whose past begins here: its segment of state 1 is no announcement.
      for (const [marketId, { decimals }] of markets) {
        this.#begin(marketId, lost, segmentStates.notKept, this.#markets.get(marketId)?.newest ?? decimals);
      }
    }
    for (const [marketId, { decimals, stale }] of markets) {
      this.#begin(marketId, place, stale ? segmentStates.stale : segmentStates.whole, decimals);
    }
  }

  /** A block told of a market: its past begins, or begins anew, if that changes what its book means. */
  #define(marketId: string, place: PastBlock, told: Decimals | undefined, toldStale: boolean | undefined): void {
    const newest = this.#markets.get(marketId)?.newest;
    const decimals = told ?? newest;
    // It is not announced yet.
    if (decimals === undefined) return;
    const wasStale = newest?.state === segmentStates.stale;
    const stale = toldStale ?? wasStale;
    const isSame =
      stale === wasStale &&
      newest?.priceDecimals === decimals.priceDecimals &&
      newest.sizeDecimals === decimals.sizeDecimals;
    if (!isSame) this.#begin(marketId, place, stale ? segmentStates.stale : segmentStates.whole, decimals);
  }

  #append({ marketId, publishedSequenceNumber, levels }: MarketChange, place: PastBlock): void {
    const past = this.#markets.get(marketId);
    if (past === undefined || past.newest.state === segmentStates.stale) return;
    const { streamSequence, height } = place;
    // Its keyframe holds the change.
    if (past.newest.firstSequence === streamSequence) return;
    const numberOffset = publishedSequenceNumber - numberBase(place.timeNs);
    const update = { streamSequence, height, numberOffset, levels: sortLevels(levels) };
    past.encoder.append(update);
    past.pending.push(update);
    this.#grown.add(past);
    this.rows++;
    if (past.encoder.changedLevels < changesPerSegment(past.newest.keyframeLevels)) return;
    this.#begin(marketId, place, segmentStates.continued, past.newest);
  }

  /** Begins a market's next segment, and seals the one before. */
  #begin(marketId: string, place: PastBlock, state: number, { priceDecimals, sizeDecimals }: Decimals): void {
    const before = this.#markets.get(marketId);
    const beforeDigest = before === undefined ? noDigest : this.#seal(before);
    const hasBook = state === segmentStates.continued || state === segmentStates.whole;
    const book = this.#books.find(marketId);
    const levels = (hasBook && book?.levels()) || [];
    const { streamSequence: firstSequence, height, timeNs } = place;
    const newest: SegmentRow = {
      ...{ marketId, firstSequence, state, height, timeNs, priceDecimals, sizeDecimals },
      publishedSequenceNumber: state === segmentStates.notKept ? 0n : (book?.published ?? 0n),
      keyframeLevels: levels.length,
      digest: undefined,
    };
    const keyframe = hasBook ? encodeKeyframe(levels) : noDigest;
    const started = {
      newest,
      newestDigest: startDigest(beforeDigest, segmentRowText(newest), keyframe),
      encoder: new SegmentEncoder(newest),
    };
    const past = before ?? {
      ...started,
      ...{ oldestSequence: firstSequence, oldestDigest: noDigest, secondTimeNs: undefined },
      ...{ pending: [], stored: noRows, written: undefined },
    };
    if (before !== undefined) {
      Object.assign(before, started);
      before.secondTimeNs ??= timeNs;
    }
    this.#markets.set(marketId, past);
    this.#moved.add(past);
    this.#putSegment(newest, 0, keyframe);
  }

  /** @returns the digest of the segment */
  #seal(past: MarketPast): Uint8Array {
    const content = past.encoder.content();
    const digest = sealedDigest(past.newestDigest, content);
    this.#putSegment({ ...past.newest, digest }, firstChangesPart, content);
    this.rows -= past.pending.length;
    past.pending = [];
    if (past.stored.rows > 0n) this.#sealed.add(past.newest.marketId);
    addTo(this.#sums, bookChangeRows, past.stored, -1n);
    past.stored = noRows;
    return digest;
  }

  #putSegment(row: SegmentRow, firstPart: number, content: Uint8Array): void {
    this.#segments.set(`${row.firstSequence} ${row.marketId}`, row);
    const parts = content.length === 0 ? [] : toParts(row, firstPart, content);
    this.#parts.push(...parts);
    this.rows += parts.length + 1;
    for (const { body } of parts) this.bytes += body.length;
  }
}

function toMarketPast({ history, newest, newestDigest, changes, secondTimeNs }: StoredPast): MarketPast {
  const encoder = new SegmentEncoder(newest);
  for (const { streamSequence, body } of changes) encoder.append(decodeUpdate(streamSequence, body));
  const { oldestSequence, oldestDigest } = history;
  return {
    ...{ newest, newestDigest, encoder, oldestSequence, oldestDigest, secondTimeNs },
    ...{ pending: [], stored: noRows, written: history },
  };
}

/** The row of `book_history` with the newest segment that was folded. */
function toHistory({ newest, newestDigest, oldestSequence, oldestDigest }: MarketPast): BookHistoryRow {
  const { marketId, firstSequence: newestSequence } = newest;
  return { marketId, oldestSequence, oldestDigest, newestSequence, newestDigest };
}
