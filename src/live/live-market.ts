import { create, fromBinary } from "@bufbuild/protobuf";
import {
  GetLatestMarketDataResponseSchema,
  GetLatestMarketDepthResponseSchema,
  GetMarketResponseSchema,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { MarketSchema } from "../../gen/vega/markets_pb.js";
import { FeeSchema, MarketDataSchema, type Trade, TradeSchema } from "../../gen/vega/vega_pb.js";
import type { EncodedResponse } from "../domain/encoded-response.js";
import { type Mark, TrackedBook } from "../domain/tracked-book.js";
import { MessageResponse } from "../encoding/message-response.js";
import type { BodyRow, DepthRow, LevelRow, TradeRow } from "../store/changes.js";
import { type DepthSegment, depthSegment, levelMessage } from "./depth-segment.js";
import type { LiveLimits } from "./limits.js";
import { Segment, SegmentResponse } from "./segment-response.js";

/** A published update of a market, up to which a subscriber may have been sent. */
export interface Published {
  readonly mark: Mark;
  readonly sequenceNumber: bigint;
}

const marketEnvelope = { schema: GetMarketResponseSchema, open: '{"market":', close: "}" } as const;
const dataEnvelope = { schema: GetLatestMarketDataResponseSchema, open: '{"marketData":', close: "}" } as const;

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
  #market: EncodedResponse<typeof GetMarketResponseSchema> | undefined;
  #definition: Uint8Array | undefined;
  #data: LiveMarketData | undefined;
  #trade: TradeRow | undefined;
  #sequenceNumber = 0n;
  #depthChanged = 0n;
  #published: Published = { mark: 0, sequenceNumber: 0n };
  #stale = false;
  readonly #depthResponses = new Map<bigint, EncodedResponse<typeof GetLatestMarketDepthResponseSchema>>();
  readonly #segments = new Map<Mark | undefined, DepthSegment>();

  constructor(
    readonly id: string,
    readonly chainVersion: string,
    readonly limits: LiveLimits,
  ) {
    this.book = new TrackedBook(limits);
  }

  /** The GetMarket response; undefined until the network announced the market. */
  get market(): EncodedResponse<typeof GetMarketResponseSchema> | undefined {
    return this.#market;
  }

  /** Undefined until the network published market data. */
  get data(): LiveMarketData | undefined {
    return this.#data;
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
  setMarket(row: BodyRow): boolean {
    const before = this.#definition;
    this.#definition = row.body;
    const segments = [Segment.ofBinary(MarketSchema, row.body)];
    this.#market = new SegmentResponse(marketEnvelope, segments, `${this.chainVersion}-${row.changedSequence}`);
    this.#touchDepth(row.changedSequence);
    return before !== undefined && decimalsOf(before) !== decimalsOf(row.body);
  }

  setData(row: BodyRow): void {
    const segment = Segment.ofBinary(MarketDataSchema, row.body);
    const response = new SegmentResponse(dataEnvelope, [segment], `${this.chainVersion}-${row.changedSequence}`);
    this.#data = { changedSequence: row.changedSequence, segment, response };
  }

  setTrade(row: TradeRow): void {
    this.#trade = row;
    this.#touchDepth(row.changedSequence);
  }

  /** Changes a level. {@link setDepth} of the same snapshot says whether an update was published. */
  changeLevel(row: LevelRow, mark: Mark): void {
    this.book.set(bookSide(row), row.price, row.volume, row.numberOfOrders, mark);
    this.#segments.clear();
  }

  /** Replaces all levels. */
  replaceLevels(rows: readonly LevelRow[], mark: Mark): void {
    this.book.replace(
      rows.map((row) => ({ ...row, side: bookSide(row) })),
      mark,
    );
    this.#segments.clear();
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
  depth(maxDepth: bigint): EncodedResponse<typeof GetLatestMarketDepthResponseSchema> {
    let response = this.#depthResponses.get(maxDepth);
    if (response === undefined) {
      if (this.#depthResponses.size >= this.limits.depthResponsesMax) this.#depthResponses.clear();
      response = this.#makeDepth(maxDepth);
      this.#depthResponses.set(maxDepth, response);
    }
    return response;
  }

  /**
   * The update for a reader that was last sent `held`. It is the whole book if `held` is undefined, or if the changes
   * since then are no longer known.
   */
  updateSince(held: Published | undefined): DepthSegment {
    let update = this.#segments.get(held?.mark);
    if (update === undefined) {
      const changed = held === undefined ? undefined : this.book.changedSince(held.mark);
      const previous = held === undefined || changed === undefined ? 0n : held.sequenceNumber;
      const levels = changed ?? this.book.levels;
      update = depthSegment(this.id, levels, this.#published.sequenceNumber, previous);
      this.#segments.set(held?.mark, update);
    }
    return update;
  }

  #touchDepth(changedSequence: bigint): void {
    if (changedSequence > this.#depthChanged) this.#depthChanged = changedSequence;
    this.#depthResponses.clear();
  }

  #makeDepth(maxDepth: bigint): EncodedResponse<typeof GetLatestMarketDepthResponseSchema> {
    const { buy, sell } = this.book.levels;
    const most = maxDepth === 0n || maxDepth > BigInt(Number.MAX_SAFE_INTEGER) ? undefined : Number(maxDepth);
    const message = create(GetLatestMarketDepthResponseSchema, {
      marketId: this.id,
      buy: buy.slice(0, most).map(levelMessage),
      sell: sell.slice(0, most).map(levelMessage),
      sequenceNumber: this.#sequenceNumber,
      ...(this.#trade === undefined ? {} : { lastTrade: tradeMessage(this.#trade) }),
    });
    const version = `${this.chainVersion}-${this.#depthChanged}${maxDepth === 0n ? "" : `-${maxDepth}`}`;
    return new MessageResponse(GetLatestMarketDepthResponseSchema, message, { version });
  }
}

/** Of prices and of sizes, to be compared. */
function decimalsOf(definition: Uint8Array): string {
  const { decimalPlaces, positionDecimalPlaces } = fromBinary(MarketSchema, definition);
  return `${decimalPlaces} ${positionDecimalPlaces}`;
}

function bookSide(row: LevelRow): 1 | 2 {
  if (row.side === 1 || row.side === 2) return row.side;
  throw new Error(`price level of market ${row.marketId} has side ${row.side}`);
}

function tradeMessage(row: TradeRow): Trade {
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
