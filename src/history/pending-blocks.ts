import { create } from "@bufbuild/protobuf";
import {
  type MarketHistoryStatus,
  MarketHistoryStatusSchema,
  MarketHistoryState as State,
} from "../../gen/marketd/history/v1/market_history_pb.js";
import type { ChangedLevel } from "../domain/order-book.js";
import { runAtOnce } from "../domain/work-pacer.js";
import { type DepthSegment, depthSegment } from "../live/depth-segment.js";
import { EncodedLevels, levelsAtOnceMax } from "../live/encoded-levels.js";
import type { MarketDecimals } from "../live/live-market.js";
import type { PastEvent } from "./market-cursor.js";
import { bySide, LevelMap } from "./past.js";

/** What a reader is to be sent of one market. */
interface PendingMarket {
  readonly isWhole: boolean;
  /** Of one block in order; of several merged. */
  levels: readonly ChangedLevel[] | LevelMap;
  sequenceNumber: bigint;
}

/** Blocks of the past that a reader was not sent yet, merged, and what it was sent of each market. */
export class PendingBlocks {
  readonly #markets = new Map<string, PendingMarket>();
  readonly #statuses = new Map<string, MarketHistoryStatus>();
  /** The last update that the reader has of each market; missing: none. */
  readonly #sent = new Map<string, bigint>();
  readonly #decimals = new Map<string, MarketDecimals>();
  /** Markets whose books the reader has not, because they are not kept. */
  readonly #notKept = new Set<string>();
  /** Changed levels, before they are merged. */
  levels = 0;

  /** Whether there is nothing to send. */
  get isEmpty(): boolean {
    return this.#markets.size + this.#statuses.size === 0;
  }

  /** Whether the reader lacks no book because it is not kept. Another process may not know yet that it is not. */
  get isKept(): boolean {
    return this.#notKept.size === 0;
  }

  /** What the reader has of a market; undefined: no book. */
  sent(marketId: string): bigint | undefined {
    return this.#sent.get(marketId);
  }

  /** The reader has a market's book from before. */
  hold(marketId: string, { sequenceNumber, decimals }: PastEvent): void {
    this.#sent.set(marketId, sequenceNumber);
    if (decimals !== undefined) this.#decimals.set(marketId, decimals);
  }

  add(marketId: string, { kind, levels, sequenceNumber, decimals, isNotKept = false }: PastEvent): void {
    if (isNotKept) this.#notKept.add(marketId);
    else this.#notKept.delete(marketId);
    if (decimals !== undefined) this.#turn(marketId, kind, decimals);
    if (kind === "stale") {
      this.#markets.delete(marketId);
      this.#sent.delete(marketId);
      return;
    }
    this.levels += levels.length;
    const known = this.#markets.get(marketId);
    if (known === undefined || kind === "whole") {
      this.#markets.set(marketId, { isWhole: kind === "whole", levels, sequenceNumber });
      return;
    }
    if (!(known.levels instanceof LevelMap)) known.levels = new LevelMap(known.levels);
    known.levels.set(levels);
    known.sequenceNumber = sequenceNumber;
  }

  /** Everything that is pending, by market id; the reader then has it. */
  take(): { readonly updates: DepthSegment[]; readonly statuses: MarketHistoryStatus[] } {
    const updates = sorted(this.#markets).map(([marketId, { isWhole, levels: pending, sequenceNumber }]) => {
      const previous = isWhole ? 0n : (this.#sent.get(marketId) ?? 0n);
      this.#sent.set(marketId, sequenceNumber);
      const levels = pending instanceof LevelMap ? runAtOnce(pending.levels(isWhole)) : bySide(pending);
      const isLarge = levels.buy.length + levels.sell.length > levelsAtOnceMax;
      return depthSegment(marketId, isLarge ? new EncodedLevels(levels) : levels, sequenceNumber, previous);
    });
    const statuses = sorted(this.#statuses).map(([, status]) => status);
    this.#markets.clear();
    this.#statuses.clear();
    this.levels = 0;
    return { updates, statuses };
  }

  #turn(marketId: string, kind: PastEvent["kind"], decimals: MarketDecimals): void {
    const before = this.#decimals.get(marketId);
    const isRedefined =
      this.#sent.has(marketId) &&
      before !== undefined &&
      (before.decimalPlaces !== decimals.decimalPlaces ||
        before.positionDecimalPlaces !== decimals.positionDecimalPlaces);
    const state = kind === "stale" ? State.STALE : isRedefined ? State.REDEFINED : State.WHOLE;
    this.#decimals.set(marketId, decimals);
    this.#statuses.set(marketId, create(MarketHistoryStatusSchema, { marketId, state, ...decimals }));
  }
}

function sorted<V>(markets: ReadonlyMap<string, V>): [string, V][] {
  return [...markets].sort(([a], [b]) => (a < b ? -1 : 1));
}
