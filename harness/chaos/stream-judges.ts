import { toJsonString } from "@bufbuild/protobuf";
import type {
  ObserveCandleDataResponse,
  ObserveMarketsDataResponse,
  ObserveTradesResponse,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { MarketDataSchema } from "../../gen/vega/vega_pb.js";
import { type CandleInterval, candleDigest } from "./candle-fold.js";
import type { Chain } from "./chain.js";
import type { Fold } from "./fold.js";
import { type Judge, tradeDigest } from "./judge.js";

/** Holds the messages of one stream against the judge's fold. */
export interface StreamJudge<Message> {
  /** The headers are there. @param height of the block that its headers name */
  opened?(height: number | undefined): void;
  /** @returns what is wrong with a message */
  apply(message: Message): string | undefined;
  /** @returns what the reader does not have yet, of what was committed some time before `time` */
  lacks(time: number): string | undefined;
}

/**
 * What the messages until now say of each chain that they can be of. What a slow reader takes may have waited in the
 * network since before the chain was replaced.
 */
class OfChains<Held> {
  readonly #held = new Map<Chain, Held>();
  readonly #judge: Judge;

  constructor(judge: Judge) {
    this.#judge = judge;
  }

  /** Adds the chains of now, those that are not known yet. */
  add(begin: (fold: Fold) => Held): void {
    for (const { chain } of this.#judge.stores(0)) {
      if (!this.#held.has(chain)) this.#held.set(chain, begin(chain.fold));
    }
  }

  /** Goes on in each chain. Those that a message cannot be of are left out. @returns why none is left */
  step(next: (fold: Fold, held: Held) => Held | { readonly wrong: string }): string | undefined {
    const problems: string[] = [];
    for (const [chain, held] of [...this.#held]) {
      const after = next(chain.fold, held);
      if (typeof after === "object" && after !== null && "wrong" in after) {
        problems.push(after.wrong);
        this.#held.delete(chain);
      } else this.#held.set(chain, after);
    }
    return this.#held.size > 0 ? undefined : problems.join("; or of the chain before: ");
  }

  /** What is held of the chain that is in the database. */
  get present(): Held | undefined {
    return this.#held.get(this.#judge.chain);
  }
}

/** ObserveTrades: each trade after the block that the headers name, once and in order. */
export class TradeStreamJudge implements StreamJudge<ObserveTradesResponse> {
  /** How many trades of the selection were before the next one. */
  readonly #next: OfChains<number>;
  #isFirst = true;

  /** @param key a market or a party; undefined: all trades */
  constructor(
    private readonly judge: Judge,
    private readonly key: string | undefined,
  ) {
    this.#next = new OfChains(judge);
  }

  opened(height: number | undefined): void {
    if (height !== undefined) this.#next.add((fold) => fold.trades.count(this.key, height));
  }

  apply({ trades }: ObserveTradesResponse): string | undefined {
    if (this.#isFirst && trades.length > 0) return "the first message is not empty";
    this.#isFirst = false;
    const digests = trades.map(tradeDigest);
    return this.#next.step(({ trades: list }, next) => {
      const index = digests.findIndex((digest, n) => list.digest(this.key, next + n) !== digest);
      if (index < 0) return next + digests.length;
      const expected = `where trade ${next + index} of ${this.key ?? "all"} comes next`;
      return { wrong: `a message with ${trades[index]?.id} of ${trades[index]?.timestamp}, ${expected}` };
    });
  }

  lacks(time: number): string | undefined {
    const published = this.judge.chain.fold.trades.count(this.key, this.judge.shownBy(time));
    const held = this.#next.present;
    return held !== undefined && held >= published ? undefined : `at trade ${held}, ${published} are there`;
  }
}

/** ObserveCandleData: the newest candle, then candles as they change; of those that end, none is passed over. */
export class CandleStreamJudge implements StreamJudge<ObserveCandleDataResponse> {
  /** The version that the reader has; -1: none. */
  readonly #version: OfChains<number>;

  constructor(
    private readonly judge: Judge,
    private readonly marketId: string,
    private readonly interval: CandleInterval,
  ) {
    this.#version = new OfChains(judge);
  }

  opened(): void {
    this.#version.add(() => -1);
  }

  apply({ candle }: ObserveCandleDataResponse): string | undefined {
    if (candle === undefined) return undefined;
    const digest = candleDigest(candle);
    const what = `the candle of ${candle.start} with volume ${candle.volume}`;
    return this.#version.step((fold, held) => {
      const series = fold.candles(this.marketId, this.interval);
      const version = series.versionOf(digest, held);
      if (version === undefined) return { wrong: `${what} is not that of any block` };
      if (version <= held) return { wrong: `${what} comes ${version === held ? "again" : "late"}` };
      const [before, now] = [series.versions[held]?.candle, series.versions[version]?.candle ?? 0];
      if (before === undefined || now === before) return version;
      const isNext = now === before + 1 && series.versions[held + 1]?.candle === now;
      return isNext ? version : { wrong: `${what} passes over the end of another one` };
    });
  }

  lacks(time: number): string | undefined {
    const series = this.judge.chain.fold.candles(this.marketId, this.interval);
    const newest = series.newestVersion(this.judge.shownBy(time));
    const held = this.#version.present;
    return held !== undefined && held >= newest ? undefined : `at version ${held} of a candle, ${newest} is there`;
  }
}

/** ObserveMarketsData: together, the messages are the market data of some block, and then of a newer one. */
export class DataStreamJudge implements StreamJudge<ObserveMarketsDataResponse> {
  readonly #texts = new Map<string, string>();
  /** The oldest block whose market data it is. */
  readonly #height: OfChains<number>;

  constructor(private readonly judge: Judge) {
    this.#height = new OfChains(judge);
  }

  opened(height = 0): void {
    this.#height.add(() => height);
  }

  apply({ marketData }: ObserveMarketsDataResponse): string | undefined {
    for (const data of marketData) {
      const text = toJsonString(MarketDataSchema, data);
      if (this.#texts.get(data.market) === text) return `market data of ${data.market} without a change`;
      this.#texts.set(data.market, text);
    }
    if (marketData.length === 0) return undefined;
    return this.#height.step((fold, height) => {
      for (let next = height; next <= fold.height; next++) if (this.#isThatOf(fold, next)) return next;
      return { wrong: `market data of ${marketData.length} markets makes that of no block from ${height} on` };
    });
  }

  lacks(time: number): string | undefined {
    const newest = this.judge.shownBy(time);
    const held = this.#height.present;
    if (held !== undefined && (held >= newest || this.#isThatOf(this.judge.chain.fold, newest))) return undefined;
    return `at the market data of block ${held}, ${newest} is there`;
  }

  #isThatOf(fold: Fold, height: number): boolean {
    let known = 0;
    for (const [marketId, { data }] of fold.markets) {
      const text = data.at(height);
      if (text !== this.#texts.get(marketId)) return false;
      if (text !== undefined) known++;
    }
    return known === this.#texts.size;
  }
}
