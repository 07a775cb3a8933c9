import {
  AssetEdgeSchema,
  AssetsConnectionSchema,
  GetAssetResponseSchema,
  ListAssetsResponseSchema,
  ListLatestMarketDataResponseSchema,
  ListMarketsResponseSchema,
  MarketConnectionSchema,
  MarketEdgeSchema,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { AssetSchema } from "../../gen/vega/assets_pb.js";
import type { EncodedResponse } from "../domain/encoded-response.js";
import { Failure, worded } from "../domain/failure.js";
import { storeHash } from "../domain/resume-token.js";
import type { Mark, PreparedChange } from "../domain/tracked-book.js";
import { runAtOnce, runInTurns } from "../domain/work-pacer.js";
import type { Changes, LevelRow } from "../store/changes.js";
import type { AssetRow } from "../store/market-table.js";
import type { StoreProgress } from "../store/progress-table.js";
import { CacheBudget } from "./cache-budget.js";
import { IdList, type Listed, ResponseCache, versionOf } from "./id-list.js";
import { type LiveLimits, liveRetryAfterMs } from "./limits.js";
import { LiveMarket, type LiveMarketData, type MarketDefinition, type Published } from "./live-market.js";
import { Segment, SegmentResponse } from "./segment-response.js";
import { type HeldMarkets, SnapshotLog } from "./snapshot-log.js";
import { marksOf, rowsYields, type SnapshotMarks } from "./snapshot-marks.js";

const listEnvelope = { schema: ListLatestMarketDataResponseSchema, open: '{"marketsData":[', close: "]}" } as const;

const marketList = {
  name: "markets",
  response: ListMarketsResponseSchema,
  connection: MarketConnectionSchema,
  edge: MarketEdgeSchema,
} as const;

const assetList = {
  name: "assets",
  response: ListAssetsResponseSchema,
  connection: AssetsConnectionSchema,
  edge: AssetEdgeSchema,
} as const;

const assetEnvelope = { schema: GetAssetResponseSchema, open: '{"asset":', close: "}" } as const;

/** An asset in memory. */
export interface LiveAsset extends Listed {
  readonly response: EncodedResponse<typeof GetAssetResponseSchema>;
}

/** The changes of a snapshot that concern streams. */
export interface StateChange {
  /** Markets that streams of all markets hold from now on: announced since the last one, or no longer stale. */
  readonly shown: readonly LiveMarket[];
  /** Markets that became stale: streams that hold them end. */
  readonly stale: readonly LiveMarket[];
  /** Markets that are stale since they were announced: no stream holds them. */
  readonly announcedStale: readonly LiveMarket[];
  /** Markets with other decimals than before: streams that hold them end, whether they are stale or not. */
  readonly redefined: readonly LiveMarket[];
  /** Markets that became stale, and those that no longer are, also if nobody could hold them before. */
  readonly turned: readonly LiveMarket[];
  /** Markets that published an update, and what they had published before. */
  readonly published: ReadonlyMap<LiveMarket, Published>;
}

/** What is known of the markets, in a few figures. */
export interface MarketCounts {
  readonly markets: number;
  readonly marketsWithData: number;
  readonly staleMarkets: number;
  /** The first of them by id, at most {@link staleIdsMax}. */
  readonly staleMarketIds: readonly string[];
}

/** Stale markets that a status names, so that it stays small. */
const staleIdsMax = 100;

/** The changes of levels of each market in a snapshot, ready to be made, and the marks of its rows. */
export interface PreparedLevels {
  readonly marks: SnapshotMarks;
  readonly levels: ReadonlyMap<LiveMarket, PreparedChange>;
}

/** A market that the network announced. */
export type AnnouncedMarket = LiveMarket & { readonly definition: MarketDefinition };

/**
 * All markets of one chain in memory, as of the newest snapshot. A snapshot is applied as a whole, between two
 * requests.
 */
export class LiveState {
  readonly chainId: string;
  /** The store's name in resume tokens. */
  readonly storeHash: Buffer;
  /** Begins the version of each response: the same chain, loaded again, may have other contents at the same block. */
  readonly chainVersion: string;
  /** What readers hold that go on from a place. */
  readonly log = new SnapshotLog();
  readonly limits: LiveLimits;
  readonly #budget: CacheBudget;
  readonly #markets = new Map<string, LiveMarket>();
  #announced: readonly LiveMarket[] = [];
  readonly #assets = new Map<string, LiveAsset>();
  readonly #lists: ResponseCache<typeof ListLatestMarketDataResponseSchema>;
  /** Pages of the announced markets. */
  readonly marketList: IdList<typeof ListMarketsResponseSchema>;
  /** Pages of the assets. */
  readonly assetList: IdList<typeof ListAssetsResponseSchema>;
  #counts: MarketCounts | undefined;
  #progress: StoreProgress;
  #lastTradeId = 0n;
  #mark: Mark = 0;

  /** Of a store; {@link apply} its first snapshot. */
  constructor(progress: StoreProgress, limits: LiveLimits) {
    const { chainId, storeId } = progress;
    this.chainId = chainId;
    this.storeHash = storeHash(chainId, storeId);
    this.chainVersion = versionOf(`${chainId}\0${storeId}`);
    this.limits = limits;
    this.#lists = new ResponseCache(limits.listResponsesMax);
    this.marketList = new IdList(marketList, this.chainVersion, limits.listResponsesMax);
    this.assetList = new IdList(assetList, this.chainVersion, limits.listResponsesMax);
    this.#budget = new CacheBudget(limits.depthResponsesBytesMax);
    this.#progress = progress;
  }

  get progress(): StoreProgress {
    return this.#progress;
  }

  /** The highest id of a trade as of the progress; 0: there is none. */
  get lastTradeId(): bigint {
    return this.#lastTradeId;
  }

  /** Announced markets, by id. */
  get announced(): readonly LiveMarket[] {
    return this.#announced;
  }

  /** The assets that the network announced, by id. */
  get assets(): readonly LiveAsset[] {
    return [...this.#assets.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /** An announced market. @throws Failure `not_found` */
  requireMarket(id: string): AnnouncedMarket {
    const market = this.#markets.get(id);
    if (market !== undefined && isAnnounced(market)) return market;
    throw worded(({ method }) => {
      const list = method(TradingDataService.method.listMarkets);
      const message = `market ${id} is not known; ${list} lists all`;
      return new Failure("not_found", message, { reason: "MARKET_UNKNOWN" });
    });
  }

  /** An announced asset. @throws Failure `not_found` */
  requireAsset(id: string): LiveAsset {
    const asset = this.#assets.get(id);
    if (asset !== undefined) return asset;
    throw worded(({ method }) => {
      const message = `asset ${id} is not known; ${method(TradingDataService.method.listAssets)} lists all`;
      return new Failure("not_found", message, { reason: "ASSET_UNKNOWN" });
    });
  }

  /** A market that the network announced, and whose book is right. @throws Failure `not_found`, `unavailable` */
  requireBook(id: string): AnnouncedMarket {
    const market = this.requireMarket(id);
    if (market.stale) throw marketStale(id);
    return market;
  }

  /** The same object until a snapshot changes a market. */
  get counts(): MarketCounts {
    this.#counts ??= countsOf(this.#announced);
    return this.#counts;
  }

  /** The state of the first snapshot, made in turns of the event loop. */
  static async create(changes: Changes, limits: LiveLimits): Promise<LiveState> {
    const state = new LiveState(changes.progress, limits);
    state.apply(changes, await state.prepare(changes));
    return state;
  }

  /** Prepares a newer snapshot in turns of the event loop, with nothing visible of it. {@link apply} has to come next. */
  prepare(changes: Changes): Promise<PreparedLevels> {
    return runInTurns(this.#prepareLevels(changes));
  }

  /** Applies a newer snapshot of the same chain. */
  apply(changes: Changes, prepared: PreparedLevels = runAtOnce(this.#prepareLevels(changes))): StateChange {
    const { marks } = prepared;
    this.#mark = marks.newest;
    this.#progress = changes.progress;
    this.#lastTradeId = changes.lastTradeId;
    const announced: LiveMarket[] = [];
    const redefined: LiveMarket[] = [];
    for (const row of changes.markets) {
      const market = this.#marketOf(row.marketId);
      if (market.definition === undefined) announced.push(market);
      if (market.setMarket(row)) redefined.push(market);
      this.marketList.changed(row.changedSequence);
    }
    for (const row of changes.assets) this.#setAsset(row);
    for (const row of changes.marketData) this.#marketOf(row.marketId).setData(row);
    for (const row of changes.trades) this.#marketOf(row.marketId).setTrade(row);
    if (changes.marketData.length > 0 || announced.length > 0) this.#lists.clear();
    const { published, turned } = this.#applyDepths(changes, prepared);
    if (changes.marketData.length > 0 || announced.length > 0 || turned.length > 0) this.#counts = undefined;
    if (announced.length > 0) {
      this.#announced = [...this.#announced, ...announced].sort((a, b) => (a.id < b.id ? -1 : 1));
    }
    const isNew = new Set(announced);
    const known = turned.filter((market) => market.definition !== undefined && !isNew.has(market));
    const shown = [...announced, ...known].filter((market) => !market.stale);
    const stale = known.filter((market) => market.stale);
    const whole = [...shown, ...stale, ...redefined].map((market) => [market, undefined] as const);
    const changed: HeldMarkets = whole.length === 0 ? published : new Map([...published, ...whole]);
    this.log.add(marks, changed);
    const announcedStale = announced.filter((market) => market.stale);
    return { shown, stale, announcedStale, redefined, turned, published };
  }

  /** The list of market data in the given order; all of the markets have some. `key` names the selection. */
  list(key: string, data: () => readonly LiveMarketData[]): EncodedResponse<typeof ListLatestMarketDataResponseSchema> {
    return this.#lists.get(key, () => {
      const selected = data();
      let newest = 0n;
      for (const { changedSequence } of selected) if (changedSequence > newest) newest = changedSequence;
      // A market that is announced may have had data before: there are more then, and none is newer.
      const version = `${this.chainVersion}-${newest}-${selected.length}-${versionOf(key)}`;
      const segments = selected.map((one) => one.segment);
      return new SegmentResponse(listEnvelope, segments, version);
    });
  }

  /** Those that published, with what they had published before, and those that became stale, or no longer are. */
  #applyDepths(
    changes: Changes,
    prepared: PreparedLevels,
  ): { published: Map<LiveMarket, Published>; turned: LiveMarket[] } {
    const published = new Map<LiveMarket, Published>();
    const turned: LiveMarket[] = [];
    for (const row of changes.depths) {
      const market = this.#marketOf(row.marketId);
      const { published: before, stale } = market;
      if (market.setDepth(row, prepared.marks.of(row.changedSequence))) published.set(market, before);
      if (market.stale !== stale) turned.push(market);
    }
    this.#applyLevels(changes.wholeBooks, published, prepared);
    return { published, turned };
  }

  #applyLevels(
    wholeBooks: boolean,
    published: ReadonlyMap<LiveMarket, Published>,
    { levels, marks }: PreparedLevels,
  ): void {
    if (!wholeBooks) {
      for (const [market, change] of levels) market.changeLevels(change);
      return;
    }
    for (const market of published.keys()) {
      market.changeLevels(levels.get(market) ?? runAtOnce(market.prepareLevels([], marks)));
    }
  }

  /** The changes of the markets' levels, for the next marks. */
  *#prepareLevels(changes: Changes): Generator<void, PreparedLevels> {
    const { levels } = changes;
    const marks = yield* marksOf(changes, this.#mark);
    const byMarket = new Map<string, LevelRow[]>();
    for (const [index, row] of levels.entries()) {
      if (index % rowsYields === 0) yield;
      const rows = byMarket.get(row.marketId);
      if (rows === undefined) byMarket.set(row.marketId, [row]);
      else rows.push(row);
    }
    const prepared = new Map<LiveMarket, PreparedChange>();
    for (const [id, rows] of byMarket) {
      const market = this.#marketOf(id);
      prepared.set(market, yield* market.prepareLevels(rows, marks));
    }
    return { marks, levels: prepared };
  }

  #setAsset({ assetId: id, changedSequence, body }: AssetRow): void {
    const segment = Segment.ofBinary(AssetSchema, body);
    const response = new SegmentResponse(assetEnvelope, [segment], `${this.chainVersion}-${changedSequence}`);
    this.#assets.set(id, { id, changedSequence, segment, response });
    this.assetList.changed(changedSequence);
  }

  #marketOf(id: string): LiveMarket {
    let market = this.#markets.get(id);
    if (market === undefined) {
      market = new LiveMarket(id, this.chainVersion, this.limits, this.#budget);
      this.#markets.set(id, market);
    }
    return market;
  }
}

function countsOf(announced: readonly LiveMarket[]): MarketCounts {
  const stale = announced.filter((market) => market.stale);
  return {
    markets: announced.length,
    marketsWithData: announced.filter(({ data }) => data !== undefined).length,
    staleMarkets: stale.length,
    staleMarketIds: stale.slice(0, staleIdsMax).map(({ id }) => id),
  };
}

function isAnnounced(market: LiveMarket): market is AnnouncedMarket {
  return market.definition !== undefined;
}

/** UNAVAILABLE, because a market's book is not right before its venue's next snapshot. */
export function marketStale(id: string, voidsPlaces = false): Failure {
  const message = `market ${id} is stale: updates of its venue were wrong or missing; try again after the venue's next snapshot`;
  return new Failure("unavailable", message, { reason: "MARKET_STALE", retryAfterMs: liveRetryAfterMs, voidsPlaces });
}

/**
 * UNAVAILABLE, because a reader holds the book of a market that became stale. It names one market, and there may be
 * more: so the reader's places are void, and its next stream begins with whole books.
 */
export function bookStale(id: string): Failure {
  return marketStale(id, true);
}

/** UNAVAILABLE, because a reader holds a book in other decimals than the market has now. */
export function marketRedefined(id: string): Failure {
  const message = `market ${id} has other decimals than before; discard its book, read the market again, and open the stream again`;
  const parts = { reason: "MARKET_STALE", reasonMetadata: { redefined: "true" }, retryAfterMs: liveRetryAfterMs };
  return new Failure("unavailable", message, parts);
}
