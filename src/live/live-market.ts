import { create, fromBinary } from "@bufbuild/protobuf";
import {
  GetLastTradeResponseSchema,
  GetLatestMarketDataResponseSchema,
  GetLatestMarketDepthResponseSchema,
  GetMarketResponseSchema,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { Market_State, MarketSchema } from "../../gen/vega/markets_pb.js";
import { FeeSchema, MarketDataSchema, type Trade, TradeSchema } from "../../gen/vega/vega_pb.js";
import type { EncodedResponse } from "../domain/encoded-response.js";
import { type Levels, type Mark, type PreparedChange, TrackedBook } from "../domain/tracked-book.js";
import { MessageResponse } from "../encoding/message-response.js";
import type { DepthRow, LevelRow } from "../store/changes.js";
import type { KeptWhole, TradeRow } from "../store/market-table.js";
import { BookResponse } from "./book-response.js";
import type { CacheBudget } from "./cache-budget.js";
import { type DepthSegment, depthSegment, levelMessage } from "./depth-segment.js";
import { EncodedLevels, levelsAtOnceMax } from "./encoded-levels.js";
import type { Listed } from "./id-list.js";
import type { LiveLimits } from "./limits.js";
import { Segment, SegmentResponse } from "./segment-response.js";
import type { SnapshotMarks } from "./snapshot-marks.js";

type DepthResponse =
  | MessageResponse<typeof GetLatestMarketDepthResponseSchema>
  | BookResponse<typeof GetLatestMarketDepthResponseSchema>;

/** A published update of a market, up to which a subscriber may have been sent. */
export interface Published {
  readonly mark: Mark;
  readonly sequenceNumber: bigint;
}

/** The scales of a market: powers of ten. */
export interface MarketDecimals {
  readonly decimalPlaces: bigint;
  readonly positionDecimalPlaces: bigint;
}

const marketEnvelope = { schema: GetMarketResponseSchema, open: '{"market":', close: "}" } as const;
const dataEnvelope = { schema: GetLatestMarketDataResponseSchema, open: '{"marketData":', close: "}" } as const;

/** A market's definition in memory. */
export interface MarketDefinition extends Listed {
  readonly response: EncodedResponse<typeof GetMarketResponseSchema>;
  /** The scales of its prices and sizes. */
  readonly decimals: MarketDecimals;
  /** Whether nobody will trade there any more: it is settled or closed. */
  readonly isOver: boolean;
}

const overStates: ReadonlySet<Market_State> = new Set([Market_State.SETTLED, Market_State.CLOSED]);

/** Market data in memory; responses that contain it share its bytes. */
export interface LiveMarketData {
  readonly changedSequence: bigint;
  readonly segment: Segment;
  readonly response: EncodedResponse<typeof GetLatestMarketDataResponseSchema>;
}

/**
 * One market in memory, as of the newest snapshot, and its responses. Each response is made on first use and shared
 * until something in it changes. Its version names the chain and the block of the last change, so it is the same from
 * every process.
 */
export class LiveMarket {
  readonly book: TrackedBook;
  #definition: MarketDefinition | undefined;
  #data: LiveMarketData | undefined;
  #announcedSequence = 0n;
  #trade: TradeRow | undefined;
  #lastTrade: EncodedResponse<typeof GetLastTradeResponseSchema> | undefined;
  #sequenceNumber = 0n;
  #depthChanged = 0n;
  #published: Published = { mark: 0, sequenceNumber: 0n };
  #stale = false;
  readonly #depthResponses = new Map<number, DepthResponse>();
  /** The whole book, if it is large and was asked for. */
  #encodedLevels: EncodedLevels | undefined;
  readonly #segments = new Map<Mark | undefined, { readonly previous: bigint; readonly update: DepthSegment }>();

  constructor(
    readonly id: string,
    readonly chainVersion: string,
    readonly limits: LiveLimits,
    private readonly budget: CacheBudget,
  ) {
    this.book = new TrackedBook(limits);
  }

  /** The market as the network last announced it; undefined until it did. */
  get definition(): MarketDefinition | undefined {
    return this.#definition;
  }

  /** Stream sequence number of the block from which on {@link data} is shown; 0 while it is not. */
  get dataShownSequence(): bigint {
    if (this.#data === undefined || this.#definition === undefined) return 0n;
    const { changedSequence } = this.#data;
    const wasAnnouncedLater = this.#announcedSequence > changedSequence;
    return wasAnnouncedLater ? this.#announcedSequence : changedSequence;
  }

  /** Undefined until the network published market data. */
  get data(): LiveMarketData | undefined {
    return this.#data;
  }

  /** The GetLastTrade response; undefined until the market has traded. */
  get lastTrade(): EncodedResponse<typeof GetLastTradeResponseSchema> | undefined {
    if (this.#trade === undefined) return undefined;
    this.#lastTrade ??= new MessageResponse(
      GetLastTradeResponseSchema,
      { trade: tradeMessage(this.#trade) },
      { version: `${this.chainVersion}-${this.#trade.changedSequence}` },
    );
    return this.#lastTrade;
  }

  /** The last published update; sequence number 0 if there is none. */
  get published(): Published {
    return this.#published;
  }

  /** Whether the book is not right, because updates of its venue were wrong or missing, or no snapshot came yet. */
  get stale(): boolean {
    return this.#stale;
  }

  /**
   * @returns whether the market's prices or sizes have other decimals than before. Depth responses get another version
   * with each definition, because it says what their numbers mean.
   */
  setMarket({ body, changedSequence }: KeptWhole): boolean {
    const before = this.#definition?.decimals;
    if (before === undefined) this.#announcedSequence = changedSequence;
    const { decimalPlaces, positionDecimalPlaces, state } = fromBinary(MarketSchema, body);
    const segment = Segment.ofBinary(MarketSchema, body);
    this.#definition = {
      id: this.id,
      changedSequence,
      segment,
      response: new SegmentResponse(marketEnvelope, [segment], `${this.chainVersion}-${changedSequence}`),
      decimals: { decimalPlaces, positionDecimalPlaces },
      isOver: overStates.has(state),
    };
    this.#touchDepth(changedSequence);
    return (
      before !== undefined &&
      (before.decimalPlaces !== decimalPlaces || before.positionDecimalPlaces !== positionDecimalPlaces)
    );
  }

  setData(row: KeptWhole): void {
    const segment = Segment.ofBinary(MarketDataSchema, row.body);
    const response = new SegmentResponse(dataEnvelope, [segment], `${this.chainVersion}-${row.changedSequence}`);
    this.#data = { changedSequence: row.changedSequence, segment, response };
  }

  setTrade(row: TradeRow): void {
    this.#trade = row;
    this.#lastTrade = undefined;
    this.#touchDepth(row.changedSequence);
  }

  /** Prepares a change of levels, or of all levels, in steps; nothing is visible of it. */
  *prepareLevels(rows: readonly LevelRow[], marks: SnapshotMarks): Generator<void, PreparedChange> {
    const { oldest } = marks;
    if (oldest === undefined) return yield* this.book.prepare(rows, marks.newest);
    return yield* this.book.prepareWhole(rows, oldest, ({ changedSequence = 0n }) => marks.of(changedSequence));
  }

  /** Changes levels. {@link setDepth} of the same snapshot says whether an update was published. */
  changeLevels(prepared: PreparedChange): void {
    this.book.apply(prepared);
    this.#segments.clear();
    this.#encodedLevels = undefined;
  }

  /** @returns whether an update was published since the last snapshot */
  setDepth(row: DepthRow, mark: Mark): boolean {
    this.#sequenceNumber = row.sequenceNumber;
    this.#stale = row.stale === 1;
    this.#touchDepth(row.changedSequence);
    if (row.publishedSequenceNumber === this.#published.sequenceNumber) return false;
    this.#published = { mark, sequenceNumber: row.publishedSequenceNumber };
    this.#segments.clear();
    return true;
  }

  /** The depth response with at most `maxDepth` levels per side; 0: all. */
  depth(maxDepth: bigint): DepthResponse {
    const { buy, sell } = this.book.levels;
    const isAll = maxDepth === 0n || maxDepth >= Math.max(buy.length, sell.length);
    const levelsMax = isAll ? Number.POSITIVE_INFINITY : Number(maxDepth);
    let response = this.#depthResponses.get(levelsMax);
    if (response === undefined) {
      response = this.#makeDepth(levelsMax);
      this.#keepDepth(levelsMax, response);
    }
    return response;
  }

  /** Drops the depth responses that count in the budget. */
  forgetDepthResponses(): void {
    const whole = this.#depthResponses.get(Number.POSITIVE_INFINITY);
    this.#depthResponses.clear();
    if (whole !== undefined) this.#depthResponses.set(Number.POSITIVE_INFINITY, whole);
    this.budget.release(this);
  }

  /**
   * The update for a reader that was last sent `held`. It is the whole book if `held` is undefined, or if the changes
   * since then are no longer known.
   */
  updateSince(held: Published | undefined): DepthSegment {
    const heldNumber = held?.sequenceNumber ?? 0n;
    const known = this.#segments.get(held?.mark);
    // Readers that resume may share a mark and hold different updates.
    if (known?.previous === heldNumber) return known.update;
    const changed = held === undefined ? undefined : this.book.changedSince(held.mark);
    const previous = changed === undefined ? 0n : heldNumber;
    const levels = changed ?? this.book.levels;
    const large = isLarge(levels)
      ? changed === undefined
        ? this.#allLevels()
        : new EncodedLevels(changed)
      : undefined;
    const update = depthSegment(this.id, large ?? levels, this.#published.sequenceNumber, previous);
    this.#segments.set(held?.mark, { previous: heldNumber, update });
    return update;
  }

  /** Whether a reader is best sent the whole book: it has fewer levels than changed since, or these are not known. */
  isBestWhole({ mark, sequenceNumber }: Published): boolean {
    return sequenceNumber === 0n || this.book.isSmallerThanChanges(mark);
  }

  #touchDepth(changedSequence: bigint): void {
    if (changedSequence > this.#depthChanged) this.#depthChanged = changedSequence;
    this.#depthResponses.clear();
    this.budget.release(this);
  }

  #allLevels(): EncodedLevels {
    this.#encodedLevels ??= new EncodedLevels(this.book.levels);
    return this.#encodedLevels;
  }

  /** The whole book's response is always kept: it is of the size of the book itself. */
  #keepDepth(levelsMax: number, response: DepthResponse): void {
    if (Number.isFinite(levelsMax)) {
      if (this.#depthResponses.size > this.limits.depthResponsesMax) this.forgetDepthResponses();
      if (!this.budget.take(this, 2 * levelsMax * depthLevelBytes)) return;
    }
    this.#depthResponses.set(levelsMax, response);
  }

  #makeDepth(levelsMax: number): DepthResponse {
    const schema = GetLatestMarketDepthResponseSchema;
    const { buy, sell } = this.book.levels;
    const isAll = levelsMax === Number.POSITIVE_INFINITY;
    const parts = { version: `${this.chainVersion}-${this.#depthChanged}${isAll ? "" : `-${levelsMax}`}` };
    const rest = {
      sequenceNumber: this.#sequenceNumber,
      ...(this.#trade === undefined ? {} : { lastTrade: tradeMessage(this.#trade) }),
    };
    if (Math.min(levelsMax, buy.length) + Math.min(levelsMax, sell.length) > levelsAtOnceMax) {
      return new BookResponse(schema, { schema, marketId: this.id, levels: this.#allLevels(), levelsMax, rest }, parts);
    }
    const message = create(schema, {
      marketId: this.id,
      buy: buy.slice(0, levelsMax).map(levelMessage),
      sell: sell.slice(0, levelsMax).map(levelMessage),
      ...rest,
    });
    return new MessageResponse(schema, message, parts);
  }
}

/**
 * What a level of a cached depth response takes in all the forms in which it may be asked for, in bytes: some 60 as JSON,
 * 20 in protobuf, both framed, in base64 and in two compressions, and 200 as a message.
 */
const depthLevelBytes = 600;

function isLarge({ buy, sell }: Levels): boolean {
  return buy.length + sell.length > levelsAtOnceMax;
}

/** A trade as a message. */
export function tradeMessage(row: Omit<TradeRow, "changedSequence">): Trade {
  const { marketId, price, size, buyer, seller, aggressor, buyOrder, sellOrder, type } = row;
  return create(TradeSchema, {
    id: row.tradeId,
    ...{ marketId, price, size, buyer, seller, aggressor, buyOrder, sellOrder, type },
    timestamp: row.timeNs,
    buyerFee: create(FeeSchema, {
      makerFee: row.buyerMakerFee,
      infrastructureFee: row.buyerInfrastructureFee,
      liquidityFee: row.buyerLiquidityFee,
    }),
    sellerFee: create(FeeSchema, {
      makerFee: row.sellerMakerFee,
      infrastructureFee: row.sellerInfrastructureFee,
      liquidityFee: row.sellerLiquidityFee,
    }),
    buyerAuctionBatch: row.buyerAuctionBatch,
    sellerAuctionBatch: row.sellerAuctionBatch,
  });
}
