import { isDeepStrictEqual } from "node:util";
import { type MessageShape, toJsonString } from "@bufbuild/protobuf";
import type {
  AggregatedLedgerEntry,
  ERC20MultiSigSignerRemovedBundle,
  GetLatestMarketDepthResponse,
  ObserveMarketsDepthUpdatesResponse,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { AggregatedLedgerEntrySchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { type Asset, AssetSchema } from "../../gen/vega/assets_pb.js";
import { type Market, MarketSchema } from "../../gen/vega/markets_pb.js";
import {
  type MarketData,
  MarketDataSchema,
  type MarketDepthUpdate,
  type PriceLevel,
  type Trade,
  TradeSchema,
} from "../../gen/vega/vega_pb.js";
import { Book, type Level, orderedDigest } from "./book.js";
import type { Chain } from "./chain.js";
import type { Commits } from "./commits.js";
import { digestOf } from "./digest.js";
import type { Bundle, DepthState, Fold } from "./fold.js";
import type { DigestedList } from "./growing-list.js";
import type { History } from "./history.js";
import type { Scoreboard } from "./scoreboard.js";
import type { StreamJudge } from "./stream-judges.js";

/**
 * How far behind the newest committed block a service may be that nothing is wrong with: it looks every 25 ms, and
 * both it and the harness wait for their turn on busy cores.
 */
const freshnessMs = 1_000;

/** Blocks that may have been committed since the harness last looked. */
const aheadMax = 150;

/** Blocks searched for one that a response without a stated height may be of. */
const searchedMax = 600;

/**
 * Right; right for a block that a fault excuses; right for one that is too old; or undefined: not what any block says.
 */
export type Verdict = "right" | "excused" | "stale" | undefined;

/** Heights that a response may be of. */
interface Window {
  readonly fold: Fold;
  /** The oldest that nobody needs an excuse for. */
  readonly fresh: number;
  readonly low: number;
  readonly high: number;
}

/** A chain that a response about the past may be of. */
export interface Store {
  readonly chain: Chain;
  /** A service that nothing is wrong with knows its blocks up to this one. */
  readonly certain: number;
}

/** Holds every response against the judge's own fold of the chain, or of the two chains while one replaces the other. */
export class Judge {
  /** Names of readers whose streams ended since because a market's decimals changed. */
  readonly toldOfDecimals = new Set<string>();
  #chain: Chain;
  #previous: { readonly chain: Chain; readonly low: number; until: number } | undefined;

  constructor(
    chain: Chain,
    private readonly commits: Commits,
    private readonly scoreboard: Scoreboard,
  ) {
    this.#chain = chain;
  }

  get chain(): Chain {
    return this.#chain;
  }

  /** The database is about to hold another chain. What it held stays true until {@link forgetPrevious}, and some. */
  replaceChain(chain: Chain): void {
    this.#previous = { chain: this.#chain, low: this.commits.height, until: Number.POSITIVE_INFINITY };
    this.#chain = chain;
    this.commits.forget();
  }

  /** The chain before is true for so much longer. */
  forgetPrevious(afterMs: number): void {
    if (this.#previous !== undefined) this.#previous.until = performance.now() + afterMs;
  }

  /** The chain, and the one that was replaced as long as its responses count, for a call made at `time`. */
  stores(time: number): [Store, ...Store[]] {
    const present = { chain: this.#chain, certain: this.floor(time) };
    const previous = this.#previous;
    if (previous === undefined || performance.now() >= previous.until) return [present];
    return [present, { chain: previous.chain, certain: previous.low }];
  }

  /** The chain that was replaced, as long as its responses count. */
  get previousChain(): Chain | undefined {
    return this.stores(0)[1]?.chain;
  }

  /** The newest block of the chain that is in the database. */
  get committed(): number {
    return this.commits.height;
  }

  /** The oldest block that a call made at `time` may be answered from. */
  floor(time: number): number {
    const since = this.scoreboard.unsettledSince;
    return this.commits.heightAt(Math.min(time, since ?? time) - freshnessMs);
  }

  /** The block that every reader has by `time` if nothing is wrong. */
  shownBy(time: number): number {
    return this.commits.heightAt(time - freshnessMs);
  }

  /** Whether some block that the response may be of fits. @param stated the height that the response itself states */
  check(startedAt: number, stated: number | undefined, fits: (fold: Fold, height: number) => boolean): Verdict {
    const windows = this.#windows(startedAt);
    if (stated !== undefined) {
      const window = windows.find(({ fold, high }) => stated <= high && fits(fold, stated));
      if (window === undefined) return undefined;
      if (stated >= window.fresh) return "right";
      return stated >= window.low ? "excused" : "stale";
    }
    const isOf = (fold: Fold, low: number, high: number) => someHeight(low, high, (height) => fits(fold, height));
    if (windows.some(({ fold, fresh, high }) => isOf(fold, fresh, high))) return "right";
    if (windows.some(({ fold, low, fresh, high }) => isOf(fold, low, Math.min(fresh - 1, high)))) return "excused";
    if (windows.some(({ fold, low }) => isOf(fold, 0, low - 1))) return "stale";
    return undefined;
  }

  /** The books of a market's published update `sequence` in the chains that count now, and in `openedOn`. */
  publishedBook(marketId: string, sequence: bigint, openedOn: Chain): string[] {
    if (sequence === 0n) return [new Book().digest];
    const folds = new Set([openedOn.fold, ...this.#windows(0).map(({ fold }) => fold)]);
    const books = [...folds].map((fold) => fold.markets.get(marketId)?.publishedBooks.get(sequence));
    return books.filter((book) => book !== undefined);
  }

  /** Whether a market's decimals changed after the block of one published update, up to that of another. */
  isRedefinedBetween(marketId: string, held: bigint, sequence: bigint, openedOn: Chain): boolean {
    const market = openedOn.fold.markets.get(marketId);
    const [after, upTo] = [market?.publishedAt.get(held), market?.publishedAt.get(sequence)];
    if (market === undefined || after === undefined || upTo === undefined) return false;
    return market.redefinedAt.some((height) => after < height && height <= upTo);
  }

  /** The chain's markets with the number of the last update that a stream brings by `time` if nothing is wrong. */
  publishedBy(time: number): Map<string, bigint> {
    const height = this.shownBy(time);
    const numbers = new Map<string, bigint>();
    for (const [marketId, market] of this.#chain.fold.markets) {
      if (market.definition.at(height) !== undefined) numbers.set(marketId, market.depth.at(height)?.published ?? 0n);
    }
    return numbers;
  }

  #windows(startedAt: number): Window[] {
    const fresh = this.shownBy(startedAt);
    const high = Math.min(this.#chain.height, this.commits.height + aheadMax);
    const [{ chain, certain }, ...previous] = this.stores(startedAt);
    const windows = [{ fold: chain.fold, fresh, low: certain, high }];
    for (const { chain, certain } of previous) {
      windows.push({ fold: chain.fold, fresh: Number.POSITIVE_INFINITY, low: certain, high: chain.height });
    }
    return windows;
  }
}

function someHeight(low: number, high: number, fits: (height: number) => boolean): boolean {
  const last = Math.max(low, high - searchedMax);
  for (let height = high; height >= last; height--) if (fits(height)) return true;
  return false;
}

/** `GetMarket`; no market: it was NOT_FOUND. */
export function isMarket(marketId: string, market: MessageShape<typeof MarketSchema> | undefined) {
  const text = market === undefined ? undefined : toJsonString(MarketSchema, market);
  return (fold: Fold, height: number): boolean => fold.markets.get(marketId)?.definition.at(height) === text;
}

/** `GetLatestMarketData`; no data: it was NOT_FOUND. */
export function isMarketData(marketId: string, data: MarketData | undefined) {
  const text = data === undefined ? undefined : toJsonString(MarketDataSchema, data);
  return (fold: Fold, height: number): boolean => fold.markets.get(marketId)?.data.at(height) === text;
}

/** `ListLatestMarketData` of all markets: all of the same block, in order of their ids. */
export function isAllMarketData(list: readonly MarketData[]) {
  const texts = new Map(list.map((data) => [data.market, toJsonString(MarketDataSchema, data)]));
  const ids = [...texts.keys()];
  const isOrdered = ids.length === list.length && ids.every((id, index) => index === 0 || (ids[index - 1] ?? "") < id);
  return (fold: Fold, height: number): boolean => {
    if (!isOrdered) return false;
    let known = 0;
    for (const [marketId, market] of fold.markets) {
      const expected = market.data.at(height);
      if (expected !== texts.get(marketId)) return false;
      if (expected !== undefined) known++;
    }
    return known === texts.size;
  };
}

const empty: DepthState = {
  sequence: 0n,
  published: 0n,
  whole: orderedDigest([], []),
  short: orderedDigest([], []),
};

/** `GetLatestMarketDepth`; no response: it was NOT_FOUND. */
export function isDepth(marketId: string, depth: GetLatestMarketDepthResponse | undefined, isShort: boolean) {
  const digest = depth === undefined ? "" : orderedDigest(depth.buy.map(levelOf), depth.sell.map(levelOf));
  const trade = depth?.lastTrade === undefined ? undefined : toJsonString(TradeSchema, depth.lastTrade);
  return (fold: Fold, height: number): boolean => {
    const market = fold.markets.get(marketId);
    if (market?.definition.at(height) === undefined) return depth === undefined;
    const state = market.depth.at(height) ?? empty;
    return (
      depth?.marketId === marketId &&
      depth.sequenceNumber === state.sequence &&
      digest === (isShort ? state.short : state.whole) &&
      trade === market.lastTrade.at(height)
    );
  };
}

function levelOf({ price, volume, numberOfOrders }: PriceLevel): Level {
  return { price, volume, orders: numberOfOrders };
}

/** Blocks of which a list has rows: behind the first of them, up to the second. */
export type BlockRange = (fold: Fold, height: number) => readonly [after: number, upTo: number];

const allBlocks: BlockRange = (_, height) => [0, height];

/** The newest `count` rows that a key selects, or of all; newest first. */
export function isNewest(
  listOf: (fold: Fold) => DigestedList,
  key: string | undefined,
  count: number,
  digests: readonly string[],
  rangeOf = allBlocks,
) {
  return (fold: Fold, height: number): boolean => {
    const list = listOf(fold);
    const [after, upTo] = rangeOf(fold, height);
    const [first, end] = [list.count(key, after), list.count(key, Math.min(upTo, height))];
    if (digests.length !== Math.max(0, Math.min(count, end - first))) return false;
    return digests.every((digest, index) => list.digest(key, end - 1 - index) === digest);
  };
}

export function entryDigest(node: AggregatedLedgerEntry): string {
  return digestOf(toJsonString(AggregatedLedgerEntrySchema, node));
}

export function tradeDigest(trade: Trade): string {
  return digestOf(toJsonString(TradeSchema, trade));
}

/** `GetLastTrade`; no trade: it was NOT_FOUND. */
export function isLastTrade(marketId: string, trade: Trade | undefined) {
  const text = trade === undefined ? undefined : toJsonString(TradeSchema, trade);
  return (fold: Fold, height: number): boolean => fold.markets.get(marketId)?.lastTrade.at(height) === text;
}

/** `ListMarkets`, with those that are over or without, all on one page: by id. */
export function isMarketList(markets: readonly Market[], hasSettled: boolean) {
  const texts = markets.map((market) => toJsonString(MarketSchema, market));
  return (fold: Fold, height: number): boolean => {
    const known = [...fold.markets].map(([id, { definition }]) => [id, definition] as const);
    const expected = textsById(known, height).filter((text) => hasSettled || !isOver.test(text));
    return isDeepStrictEqual(texts, expected);
  };
}

const isOver = /"state":"STATE_(SETTLED|CLOSED)"/;

/** `ListAssets`, all on one page: by id. */
export function isAssetList(assets: readonly Asset[]) {
  const texts = assets.map((asset) => toJsonString(AssetSchema, asset));
  return (fold: Fold, height: number): boolean => isDeepStrictEqual(texts, textsById([...fold.assets], height));
}

function textsById(known: (readonly [string, History<string>])[], height: number): string[] {
  const sorted = known.sort(([a], [b]) => (a < b ? -1 : 1));
  return sorted.map(([, history]) => history.at(height)).filter((text) => text !== undefined);
}

/** The newest `count` bundles, newest first. */
export function isNewestBundles(count: number, nodes: readonly ERC20MultiSigSignerRemovedBundle[]) {
  const texts = nodes.map((node) => bundleText(node.timestamp, node, node.signatures));
  return (fold: Fold, height: number): boolean => {
    const known = fold.bundles.filter((bundle) => bundle.height <= height).sort(newestFirst);
    const page = known.slice(0, count);
    return (
      page.length === texts.length &&
      page.every(
        (each, index) => texts[index] === bundleText(each.timeNs, each.fields, each.signatures.at(height) ?? ""),
      )
    );
  };
}

function bundleText(timeNs: bigint, fields: Bundle["fields"], signatures: string): string {
  const { oldSigner, submitter, nonce, epochSeq } = fields;
  return [timeNs, oldSigner, submitter, nonce, epochSeq, signatures].join(" ");
}

function newestFirst(a: Bundle, b: Bundle): number {
  if (a.timeNs !== b.timeNs) return a.timeNs > b.timeNs ? -1 : 1;
  return a.id > b.id ? -1 : 1;
}

/** What a reader of a depth stream holds: a book and a number for each market. */
export class StreamBooks implements StreamJudge<ObserveMarketsDepthUpdatesResponse> {
  readonly #books = new Map<string, { readonly book: Book; sequence: bigint }>();
  readonly #judge: Judge;
  /** What a slow reader takes may have waited in the network since before the chain was replaced. */
  readonly #openedOn: Chain;

  constructor(judge: Judge) {
    this.#judge = judge;
    this.#openedOn = judge.chain;
  }

  apply({ update }: ObserveMarketsDepthUpdatesResponse): string | undefined {
    return update.map((each) => this.#apply(each)).find((problem) => problem !== undefined);
  }

  /** Folds an update as docs/depth-stream.md tells readers to. @returns what is wrong with it */
  #apply(update: MarketDepthUpdate): string | undefined {
    const { marketId, sequenceNumber, previousSequenceNumber } = update;
    let held = this.#books.get(marketId);
    const what = `update ${previousSequenceNumber} to ${sequenceNumber} of market ${marketId}`;
    if (held !== undefined && this.#judge.isRedefinedBetween(marketId, held.sequence, sequenceNumber, this.#openedOn)) {
      return `${what} is in other decimals than ${held.sequence}, which the stream began with`;
    }
    if (held === undefined || previousSequenceNumber === 0n) {
      if (previousSequenceNumber !== 0n) return `${what} before any whole book`;
      held = { book: new Book(), sequence: sequenceNumber };
      this.#books.set(marketId, held);
    } else if (previousSequenceNumber !== held.sequence) {
      return `${what}, where ${held.sequence} is held: a gap`;
    } else if (sequenceNumber <= held.sequence) {
      return `${what} goes back`;
    }
    for (const level of update.buy) held.book.set(1, levelOf(level));
    for (const level of update.sell) held.book.set(2, levelOf(level));
    held.sequence = sequenceNumber;
    const expected = this.#judge.publishedBook(marketId, sequenceNumber, this.#openedOn);
    if (expected.includes(held.book.digest)) return undefined;
    return `${what}: ${expected.length === 0 ? "no block published that number" : "the book is another"}`;
  }

  lacks(time: number): string | undefined {
    for (const [marketId, number] of this.#judge.publishedBy(time)) {
      const held = this.#books.get(marketId)?.sequence;
      if (held === undefined || held < number) return `${marketId} is at ${held}, published is ${number}`;
    }
    return undefined;
  }
}
