import { create, toBinary } from "@bufbuild/protobuf";
import type { Book } from "../../examples/typescript/keep-a-book.js";
import { MarketSchema } from "../../gen/vega/markets_pb.js";
import { MarketDataSchema } from "../../gen/vega/vega_pb.js";
import { comparePrices } from "../../src/domain/price.js";
import type { Changes, DepthRow, LevelRow, Place } from "../../src/store/changes.js";
import type { KeptWhole, TradeRow } from "../../src/store/market-table.js";
import type { StoreProgress } from "../../src/store/progress-table.js";

/** A level as text, for comparisons: `price volume orders`. */
export type LevelText = string;

/** A book as text, each side the best first. */
export interface BookText {
  readonly buy: readonly LevelText[];
  readonly sell: readonly LevelText[];
}

/** A level that a block sets; volume 0: it vanishes. */
export interface LevelChange {
  readonly marketId: string;
  readonly side: 1 | 2;
  readonly price: string;
  readonly volume: bigint;
}

/** What a block does. */
export interface ModelBlock {
  readonly announce?: readonly string[];
  readonly data?: readonly string[];
  readonly levels?: readonly LevelChange[];
  /** Markets with order events that change no level. */
  readonly quiet?: readonly string[];
  readonly trades?: readonly string[];
}

type Changed<T> = T & { readonly changedSequence: bigint };

/** The rows that a block wrote. */
export interface BlockRows {
  readonly progress: StoreProgress;
  readonly markets: readonly KeptWhole[];
  readonly marketData: readonly KeptWhole[];
  readonly depths: readonly DepthRow[];
  readonly levels: readonly Changed<LevelRow>[];
  readonly trades: readonly TradeRow[];
}

/** Text of levels, whatever they are. */
export function bookText(book: {
  readonly buy: readonly { readonly price: string; readonly volume: bigint; readonly numberOfOrders: bigint }[];
  readonly sell: readonly { readonly price: string; readonly volume: bigint; readonly numberOfOrders: bigint }[];
}): BookText {
  const text = (level: { price: string; volume: bigint; numberOfOrders: bigint }) =>
    `${level.price} ${level.volume} ${level.numberOfOrders}`;
  return { buy: book.buy.map(text), sell: book.sell.map(text) };
}

/** The same of a book that the documented example keeps. */
export function keptBookText({ buy, sell }: Book): BookText {
  const ascending = (side: Book["buy"]) =>
    [...side.values()]
      .sort((a, b) => comparePrices(a.price, b.price))
      .map(({ price, volume, numberOfOrders }) => `${price} ${volume} ${numberOfOrders}`);
  return { buy: ascending(buy).reverse(), sell: ascending(sell) };
}

/**
 * A network of markets as the loader would write it, and what every book was at every published sequence number: the
 * truth that streams are held to, made without any of the code they use.
 */
export class ModelNetwork {
  readonly #markets = new Map<string, KeptWhole>();
  readonly #data = new Map<string, KeptWhole>();
  readonly #depths = new Map<string, DepthRow>();
  readonly #levels = new Map<string, Changed<LevelRow>>();
  readonly #trades = new Map<string, TradeRow>();
  readonly #history = new Map<string, BookText>();
  progress: StoreProgress;

  constructor(chainId = "model-chain") {
    this.progress = {
      storeId: "",
      chainId,
      streamSequence: 0n,
      height: 0n,
      timeNs: 1_000_000n,
      prunedSequence: 0n,
    };
  }

  get announced(): readonly string[] {
    return [...this.#markets.keys()].sort();
  }

  depth(marketId: string): DepthRow | undefined {
    return this.#depths.get(marketId);
  }

  /** The book when this was published; sequence number 0: the empty one. */
  at(marketId: string, sequenceNumber: bigint): BookText | undefined {
    return sequenceNumber === 0n ? { buy: [], sell: [] } : this.#history.get(`${marketId} ${sequenceNumber}`);
  }

  /** The book now. */
  now(marketId: string): BookText {
    const rows = [...this.#levels.values()].filter((row) => row.marketId === marketId && row.volume > 0n);
    const of = (side: number) => rows.filter((row) => row.side === side);
    return bookText({
      buy: of(1).sort((a, b) => comparePrices(b.price, a.price)),
      sell: of(2).sort((a, b) => comparePrices(a.price, b.price)),
    });
  }

  /** Applies a block and gives the rows that it wrote. */
  add(block: ModelBlock): BlockRows {
    const before = this.progress;
    const changedSequence = before.streamSequence + 10n;
    const height = before.height + 1n;
    const timeNs = before.timeNs + 1_000_000n;
    this.progress = { ...before, streamSequence: changedSequence, height, timeNs };
    const markets = (block.announce ?? []).map((marketId) => {
      const market = create(MarketSchema, { id: marketId, decimalPlaces: height });
      return put(this.#markets, { marketId, changedSequence, body: toBinary(MarketSchema, market) });
    });
    const marketData = (block.data ?? []).map((marketId) => {
      const data = create(MarketDataSchema, { market: marketId, timestamp: timeNs, markPrice: String(height) });
      return put(this.#data, { marketId, changedSequence, body: toBinary(MarketDataSchema, data) });
    });
    const trades = (block.trades ?? []).map((marketId) => put(this.#trades, this.#trade(marketId, changedSequence)));
    const levels = (block.levels ?? []).map((change) => {
      const { marketId, side, price, volume } = change;
      const row = { marketId, side, price, volume, numberOfOrders: volume === 0n ? 0n : 1n, changedSequence };
      this.#levels.set(`${marketId} ${side} ${price}`, row);
      return row;
    });
    const depths = this.#publish(levels, block.quiet ?? [], changedSequence);
    return { progress: this.progress, markets, marketData, depths, levels, trades };
  }

  /** Forgets tombstones up to now. */
  prune(): void {
    for (const [key, row] of this.#levels) if (row.volume === 0n) this.#levels.delete(key);
    this.progress = { ...this.progress, prunedSequence: this.progress.streamSequence };
  }

  /** What the store says to a reader at a place. */
  changes(since: Place | undefined): Changes {
    const place = since?.chainId === this.progress.chainId ? since.streamSequence : undefined;
    const wholeBooks = place === undefined || this.progress.prunedSequence > place;
    const newer = <T extends { changedSequence: bigint }>(rows: Map<string, T>) =>
      [...rows.values()].filter((row) => row.changedSequence > (place ?? 0n));
    return {
      progress: this.progress,
      markets: newer(this.#markets),
      marketData: newer(this.#data),
      assets: [],
      depths: newer(this.#depths),
      levels: wholeBooks ? [...this.#levels.values()] : newer(this.#levels),
      trades: newer(this.#trades),
      lastTradeId: 0n,
      wholeBooks,
    };
  }

  #publish(levels: readonly LevelRow[], quiet: readonly string[], changedSequence: bigint): DepthRow[] {
    const published = new Set(levels.map((level) => level.marketId));
    const rows: DepthRow[] = [];
    for (const marketId of new Set([...published, ...quiet])) {
      const sequenceNumber = this.progress.timeNs + 7n;
      const publishedSequenceNumber = published.has(marketId)
        ? sequenceNumber
        : (this.#depths.get(marketId)?.publishedSequenceNumber ?? 0n);
      rows.push(put(this.#depths, { marketId, sequenceNumber, publishedSequenceNumber, changedSequence }));
      if (published.has(marketId)) this.#history.set(`${marketId} ${sequenceNumber}`, this.now(marketId));
    }
    return rows;
  }

  #trade(marketId: string, changedSequence: bigint): TradeRow {
    return {
      ...{ marketId, changedSequence, tradeId: `trade-${changedSequence}`, price: "18446744073709551617", size: 3n },
      ...{ buyer: "alice", seller: "bob", aggressor: 2, buyOrder: "order-b", sellOrder: "order-s" },
      ...{ timeNs: this.progress.timeNs, type: 1 },
      ...{ buyerMakerFee: "1", buyerInfrastructureFee: "2", buyerLiquidityFee: "3" },
      ...{ sellerMakerFee: "0", sellerInfrastructureFee: "0", sellerLiquidityFee: "0" },
      ...{ buyerAuctionBatch: 4n, sellerAuctionBatch: 18_446_744_073_709_551_615n },
    };
  }
}

function put<T extends { readonly marketId: string }>(rows: Map<string, T>, row: T): T {
  rows.set(row.marketId, row);
  return row;
}
