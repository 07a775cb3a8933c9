import { create, toJsonString } from "@bufbuild/protobuf";
import { type Candle, CandleSchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { digestOf } from "./digest.js";
import type { GrowingList } from "./growing-list.js";
import { History } from "./history.js";

/** Periods in nanoseconds, by the names that candle ids have; 0: each block is one. */
const minuteNs = 60_000_000_000n;
export const candlePeriodsNs = {
  block: 0n,
  "1_minute": minuteNs,
  "5_minutes": 5n * minuteNs,
  "15_minutes": 15n * minuteNs,
  "1_hour": 60n * minuteNs,
  "6_hours": 360n * minuteNs,
  "1_day": 1_440n * minuteNs,
} as const;

export type CandleInterval = keyof typeof candlePeriodsNs;

/** A trade, as far as candles and selections need it. */
export interface FoldedTrade {
  readonly height: number;
  readonly timeNs: bigint;
  readonly price: string;
  readonly size: bigint;
  /** What its price and its size mean. */
  readonly scale: string;
  /** Of its JSON. */
  readonly digest: string;
}

/** A candle as it was at the end of a block that changed it. */
interface CandleVersion {
  /** The number of the candle in its series. */
  readonly candle: number;
  readonly height: number;
  readonly digest: string;
}

/** All candles of a market and an interval, as they were at the end of every block. */
export class CandleSeries {
  /** In the order of the blocks, and of the candles within a block. */
  readonly versions: CandleVersion[] = [];
  readonly #versionsByDigest = new Map<string, number[]>();
  readonly #candles: History<string>[] = [];
  readonly #begins: number[] = [];
  #taken = 0;
  /** The candle that is running, and what all of its trades have in common. */
  #running: Candle | undefined;
  #period = "";

  constructor(
    private readonly trades: GrowingList<FoldedTrade>,
    private readonly marketId: string,
    private readonly periodNs: bigint,
  ) {}

  /** Folds the trades of all blocks up to one. */
  foldTo(height: number): this {
    const end = this.trades.count(this.marketId, height);
    for (; this.#taken < end; this.#taken++) {
      const trade = this.trades.row(this.marketId, this.#taken);
      if (trade === undefined) throw new Error("a trade that was counted is missing");
      this.#take(trade);
      const next = this.trades.row(this.marketId, this.#taken + 1);
      const isLast = next === undefined || next.height !== trade.height || this.#periodOf(next) !== this.#period;
      if (isLast) this.#note(trade.height);
    }
    return this;
  }

  /** The newest `count` candles at the end of a block, newest first. */
  newest(height: number, count: number): string[] {
    const known = this.#begins.findLastIndex((begin) => begin <= height) + 1;
    const page = this.#candles.slice(Math.max(0, known - count), known).reverse();
    return page.map((candle) => candle.at(height) ?? "");
  }

  /**
   * The number of the first version behind another one that has a digest, or else of the last one; undefined: no block
   * ends with such a candle. Blocks of one time can have the same candle.
   */
  versionOf(digest: string, behind: number): number | undefined {
    const versions = this.#versionsByDigest.get(digest) ?? [];
    return versions.find((version) => version > behind) ?? versions.at(-1);
  }

  /** The number of the newest version at the end of a block; -1: there is none. */
  newestVersion(height: number): number {
    return this.versions.findLastIndex((version) => version.height <= height);
  }

  #periodOf({ timeNs, scale, height }: FoldedTrade): string {
    const { periodNs } = this;
    return periodNs === 0n ? `block ${height} ${scale}` : `${timeNs / periodNs} ${scale}`;
  }

  #take(trade: FoldedTrade): void {
    const { price, size, timeNs: lastUpdate } = trade;
    const period = this.#periodOf(trade);
    if (this.#running === undefined || period !== this.#period) {
      const { periodNs } = this;
      const start = periodNs === 0n ? lastUpdate : lastUpdate - (lastUpdate % periodNs);
      this.#running = create(CandleSchema, { start, open: price, high: price, low: price });
      this.#period = period;
      this.#candles.push(new History());
      this.#begins.push(trade.height);
    }
    const { high, low, volume } = this.#running;
    Object.assign(this.#running, { lastUpdate, close: price, volume: volume + size });
    if (BigInt(price) > BigInt(high)) this.#running.high = price;
    if (BigInt(price) < BigInt(low)) this.#running.low = price;
  }

  #note(height: number): void {
    if (this.#running === undefined) return;
    const digest = candleDigest(this.#running);
    const candle = this.#candles.length - 1;
    this.#candles[candle]?.set(height, digest);
    const known = this.#versionsByDigest.get(digest) ?? [];
    this.#versionsByDigest.set(digest, [...known, this.versions.push({ candle, height, digest }) - 1]);
  }
}

export function candleDigest(candle: Candle): string {
  return digestOf(toJsonString(CandleSchema, candle));
}
