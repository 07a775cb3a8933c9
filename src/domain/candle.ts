import { firstIdOfBlock, positionBits } from "./block-position.js";
import { comparePrices } from "./price.js";

/** The intervals of candles. Periods begin at multiples of their length since 1970; 0: each block is a period. */
export const candleIntervals = [
  { name: "block", seconds: 0 },
  { name: "1 minute", seconds: 60 },
  { name: "5 minutes", seconds: 300 },
  { name: "15 minutes", seconds: 900 },
  { name: "1 hour", seconds: 3_600 },
  { name: "6 hours", seconds: 21_600 },
  { name: "1 day", seconds: 86_400 },
] as const;

/** The trades of a market in a period, in brief. */
export interface Candle {
  readonly marketId: string;
  readonly periodSeconds: number;
  /** When its period begins; of a block its time. */
  readonly startNs: bigint;
  /** The id of its first trade: several candles of a market can begin at one time. */
  readonly firstTrade: bigint;
  /** The time of its last trade. */
  readonly lastNs: bigint;
  readonly open: string;
  readonly high: string;
  readonly low: string;
  readonly close: string;
  readonly volume: bigint;
  /** What its numbers mean. */
  readonly priceDecimals: bigint;
  readonly sizeDecimals: bigint;
}

/** What a candle needs of a trade. */
export interface CandleTrade {
  readonly id: bigint;
  readonly marketId: string;
  readonly timeNs: bigint;
  readonly price: string;
  readonly size: bigint;
}

/** What the numbers of a trade mean. */
export type CandleScale = Pick<Candle, "priceDecimals" | "sizeDecimals">;

const volumeMax = (1n << 64n) - 1n;
const idPrefix = "trades_candle_";

/** The id of the candles of a market and an interval. */
export function candleId(interval: string, marketId: string): string {
  return `${idPrefix}${interval.replaceAll(" ", "_")}_${marketId}`;
}

/** Parses such an id; undefined: it is none. */
export function parseCandleId(id: string): { readonly seconds: number; readonly marketId: string } | undefined {
  for (const { name, seconds } of candleIntervals) {
    const prefix = candleId(name, "");
    if (id.startsWith(prefix) && id.length > prefix.length) return { seconds, marketId: id.slice(prefix.length) };
  }
  return undefined;
}

/** When the period of a time begins. */
export function periodStart(timeNs: bigint, seconds: number): bigint {
  return seconds === 0 ? timeNs : timeNs - (timeNs % (BigInt(seconds) * 1_000_000_000n));
}

/**
 * A market's next trade: the candle with it, or a new one. Another scale begins a new one, and so does a volume that
 * would exceed 64 bits.
 */
export function addToCandle(
  candle: Candle | undefined,
  trade: CandleTrade,
  periodSeconds: number,
  { priceDecimals, sizeDecimals }: CandleScale,
): Candle {
  const { id, marketId, timeNs, price, size } = trade;
  const startNs = periodStart(timeNs, periodSeconds);
  const goesOn =
    candle !== undefined &&
    candle.startNs === startNs &&
    (periodSeconds > 0 || candle.firstTrade >= firstIdOfBlock(id >> positionBits)) &&
    candle.priceDecimals === priceDecimals &&
    candle.sizeDecimals === sizeDecimals &&
    candle.volume + size <= volumeMax;
  if (!goesOn) {
    const prices = { open: price, high: price, low: price, close: price };
    const scale = { priceDecimals, sizeDecimals };
    return { marketId, periodSeconds, startNs, firstTrade: id, lastNs: timeNs, ...prices, volume: size, ...scale };
  }
  return {
    ...candle,
    lastNs: timeNs,
    high: comparePrices(price, candle.high) > 0 ? price : candle.high,
    low: comparePrices(price, candle.low) < 0 ? price : candle.low,
    close: price,
    volume: candle.volume + size,
  };
}
