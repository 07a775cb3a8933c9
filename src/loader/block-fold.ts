import { type DescMessage, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { type MarketDefinition, VenueEventSchema } from "../../gen/marketd/events/v1/venue_pb.js";
import { AssetSchema } from "../../gen/vega/assets_pb.js";
import { NodeSignatureSchema } from "../../gen/vega/commands/v1/validator_commands_pb.js";
import {
  BeginBlockSchema,
  EndBlockSchema,
  ERC20MultiSigSignerRemovedSchema,
  ExpiredOrdersSchema,
} from "../../gen/vega/events/v1/events_pb.js";
import { type Market, MarketSchema } from "../../gen/vega/markets_pb.js";
import { type MarketData, MarketDataSchema, OrderSchema, type Trade, TradeSchema } from "../../gen/vega/vega_pb.js";
import { heightMax } from "../domain/block-position.js";
import { type BookChanges, canonicalQuantity, eventNumber, type OrderBooks } from "../domain/order-book.js";
import type { BundleRow, SignatureRow } from "../store/bundle-table.js";
import type { VenueMarketRow } from "../store/depth-table.js";
import { toTradeRow } from "../store/market-table.js";
import type { Progress } from "../store/progress-table.js";
import { emptyBatch, rowCount, type WholeBatch } from "./batch.js";
import { BlockChain } from "./block-chain.js";
import { EventEnvelope, eventMembers, kindName } from "./bus-event.js";
import {
  checkAsset,
  checkMarket,
  checkMarketData,
  checkNodeSignature,
  checkOrder,
  checkSignerRemoved,
  checkTrade,
} from "./event-checks.js";
import { fieldError, requireBlockTime, requireId, shown } from "./field-checks.js";
import type { Frame } from "./frames.js";
import type { HistoryFold } from "./history-fold.js";
import type { LedgerTextWriter } from "./ledger-text.js";
import { decimalsOf } from "./market-decimals.js";
import { RecordingError } from "./recording-error.js";
import { type NewScale, noTrades, TradeFold } from "./trade-fold.js";
import { type VenueCounts, VenueMarkets } from "./venue-markets.js";

/** Differences from the network's best prices that are described; all are counted. */
export const mismatchesDescribedMax = 10;

/** The longest market, market data or asset event in bytes, because it is one value of one row. Usually they have some KiB. */
export const keptWholeBytesMax = 1024 * 1024;

/** The maximum memory for the events of one block, in bytes, as counted with {@link eventOverheadBytes}. */
export const blockBytesMax = 1024 * 1024 * 1024;

/** The memory of an event besides its own bytes: the objects made of it. */
export const eventOverheadBytes = 1_024;

/** The memory of a price level in a venue's update. */
export const levelOverheadBytes = 256;

const volumeMax = (1n << 64n) - 1n;

/** The first byte of a `VenueEvent` that holds a definition, which saves decoding the others. */
const definitionTag = VenueEventSchema.field.marketDefinition.number * 8 + 2;

/** Counts over the whole load. */
export type FoldCounts = ReturnType<typeof noCounts>;

function noCounts(venues: VenueCounts) {
  return {
    /** Whole blocks; a replayed one counts each time. */
    blocks: 0,
    /** Events in those blocks, and outside of blocks. */
    events: 0,
    /** Events before the place that the store had reached. */
    alreadyLoaded: 0,
    /** Events before the first block, and between blocks. */
    outsideBlocks: 0,
    /** Events that marketd does not store, by kind. */
    skipped: new Map<string, number>(),
    /** Events with fields that these definitions lack. */
    unknownFields: 0,
    bestPricesCompared: 0,
    bestPricesDiffering: 0,
    /** The first few differences, one line each. */
    differences: [] as string[],
    ledgerEntries: 0,
    venues,
  };
}

/** The state of the store after the last load. */
export interface FoldStart {
  readonly progress: Progress | undefined;
  /** Positions in use in the block of the progress. */
  readonly position: number;
  readonly books: OrderBooks;
  readonly ledger: LedgerTextWriter;
  /** Venues' markets; their levels are in the books. */
  readonly venueMarkets?: readonly VenueMarketRow[];
  /** Called with what operators need to know, as that a market has become stale. */
  readonly onNotice?: (text: string) => void;
  /** Default: that of an empty store. */
  readonly chain?: BlockChain;
  /** Undefined: the past of books is not kept. */
  readonly history?: HistoryFold | undefined;
  /** Default: that of an empty store. */
  readonly trades?: TradeFold;
}

/** The open block. */
type OpenBlock = ReturnType<typeof openBlock>;

function openBlock(height: bigint, timeNs: bigint) {
  return {
    height,
    timeNs,
    markets: new Map<string, Uint8Array>(),
    marketData: new Map<string, MarketData>(),
    assets: new Map<string, Uint8Array>(),
    trades: [] as Trade[],
    scales: [] as NewScale[],
    bundles: new Map<string, BundleRow>(),
    signatures: [] as SignatureRow[],
    /** Memory of its events. */
    bytes: 0,
  };
}

/** Members of which something is kept in memory until the block ends, besides ledger movements. */
const storedMembers: ReadonlySet<number> = new Set([
  eventMembers.order,
  eventMembers.trade,
  eventMembers.marketData,
  eventMembers.asset,
  eventMembers.nodeSignature,
  eventMembers.marketCreated,
  eventMembers.marketUpdated,
  eventMembers.signerRemoved,
  eventMembers.venueEvent,
]);

/** The effect of an event. */
export type FoldOutcome = "event" | "block_end" | "protocol_upgrade";

/**
 * Folds events into the changes of blocks (docs/events.md), without a database: `take` returns the changes of whole
 * blocks since the last call.
 */
export class BlockFold {
  readonly counts: FoldCounts;
  readonly #venues: VenueMarkets;
  readonly #onNotice: (text: string) => void;
  /** The last definition of each market among the events that are skipped, and its event. */
  readonly #skippedDefinitions = new Map<
    string,
    { readonly sequence: bigint; readonly definition: MarketDefinition }
  >();
  readonly #books: OrderBooks;
  readonly #ledger: LedgerTextWriter;
  readonly #chain: BlockChain;
  readonly #history: HistoryFold | undefined;
  readonly #trades: TradeFold;
  readonly #envelope = new EventEnvelope();
  #batch = emptyBatch();
  /** Bytes of markets, market data and assets in the batch. */
  #keptBytes = 0;
  #chainId: Buffer | undefined;
  /** Of the last event; undefined: any may be first. */
  #sequence: bigint | undefined;
  /** Of the last block's end, or of an upgrade, in the batch or the store. */
  #reached: Omit<Progress, "prunedSequence"> | undefined;
  /** Events up to this one are skipped: the store has them, or an earlier source had them. */
  #loadedUpTo: bigint;
  /** Whether events of this source may be repeated. */
  #repeats = false;
  #position: number;
  #block: OpenBlock | undefined;
  #moved = false;
  /** By type and member, so that counting skipped events creates no text. */
  readonly #skipped = new Map<number, number>();

  constructor(start: FoldStart) {
    this.#books = start.books;
    this.#onNotice = start.onNotice ?? (() => {});
    this.#venues = new VenueMarkets(start.books, start.venueMarkets ?? [], (marketId, reason) => {
      const state = reason === undefined ? "no longer stale" : "stale";
      this.#onNotice(`market ${marketId} is ${state} from event ${this.#sequence} on${reason ? `: ${reason}` : ""}`);
    });
    this.counts = noCounts(this.#venues.counts);
    this.#ledger = start.ledger;
    this.#chain = start.chain ?? new BlockChain();
    this.#history = start.history;
    this.#trades = start.trades ?? new TradeFold(noTrades);
    this.#position = start.position;
    this.#reached = start.progress;
    this.#loadedUpTo = start.progress?.streamSequence ?? -1n;
    this.#chainId = start.progress === undefined ? undefined : Buffer.from(start.progress.chainId, "latin1");
  }

  /** Whether `take` would return something. */
  get hasBatch(): boolean {
    return this.#moved;
  }

  /** The size of the batch. */
  get size(): { readonly bytes: number; readonly rows: number } {
    const { bytes = 0, rows = 0 } = this.#history ?? {};
    return {
      bytes: this.#ledger.pendingBytes + this.#keptBytes + bytes,
      rows: rowCount(this.#batch) + rows + this.#trades.rows,
    };
  }

  /** The next event that is needed; earlier ones may precede it. Undefined: any may be first. */
  get needed(): bigint | undefined {
    return this.#loadedUpTo < 0n ? undefined : this.#loadedUpTo + 1n;
  }

  /** The changes of whole blocks since the last `take`. Changes of an open block stay here. */
  take(): WholeBatch {
    if (this.#reached === undefined) throw new Error("no block has ended yet");
    const { streamSequence } = this.#reached;
    const past = this.#history?.take(streamSequence);
    const allTrades = this.#trades.take(streamSequence);
    const batch = { ...this.#batch, ...this.#ledger.take(), past, allTrades, reached: this.#reached };
    this.#batch = emptyBatch();
    this.#keptBytes = 0;
    this.#moved = false;
    return batch;
  }

  /** The counts, with names of the skipped kinds. */
  summary(): FoldCounts {
    const skipped = new Map<string, number>();
    for (const [key, count] of this.#skipped) {
      const name = kindName(Math.floor(key / 0x20000000), key % 0x20000000);
      skipped.set(name, (skipped.get(name) ?? 0) + count);
    }
    return { ...this.counts, skipped: new Map([...skipped].sort(([a], [b]) => (a < b ? -1 : 1))) };
  }

  /** Applies the next event of the stream. @throws RecordingError naming it */
  apply(frame: Frame): FoldOutcome {
    const seen = this.#sequence ?? -1n;
    // What is repeated may be out of order.
    const isRepeated = this.#repeats && (frame.sequence <= seen || frame.sequence <= this.#loadedUpTo);
    if (!isRepeated) this.#checkSequence(frame.sequence);
    const envelope = this.#envelope;
    try {
      envelope.read(frame.body);
      this.#checkChain();
      if (!isRepeated) this.#sequence = frame.sequence;
      if (isRepeated || frame.sequence <= this.#loadedUpTo) return this.#skipLoaded(frame.sequence);
      if (this.#skippedDefinitions.size > 0) this.#compareSkipped();
      this.counts.events++;
      if (envelope.hasUnknownFields) this.counts.unknownFields++;
      return this.#dispatch(frame.sequence);
    } catch (error) {
      if (error instanceof RecordingError) {
        throw new RecordingError(`event ${frame.sequence} ${error.message}`, error.cause);
      }
      throw error;
    }
  }

  /** An event that was loaded before. */
  #skipLoaded(sequence: bigint): FoldOutcome {
    this.counts.alreadyLoaded++;
    if (this.#envelope.member === eventMembers.venueEvent && this.#envelope.body()[0] === definitionTag) {
      const { event } = this.#decode(VenueEventSchema);
      if (event.case === "marketDefinition") {
        this.#skippedDefinitions.set(event.value.marketId, { sequence, definition: event.value });
      }
    }
    // An earlier one may differ from the last, which is the one that counts.
    if (sequence === this.#loadedUpTo) this.#compareSkipped();
    return "event";
  }

  #compareSkipped(): void {
    for (const [marketId, { sequence, definition }] of this.#skippedDefinitions) {
      const difference = this.#venues.difference(definition);
      if (difference === undefined) continue;
      this.#onNotice(
        `event ${sequence} defines market ${shown(marketId)} with ${difference}, but was loaded before and is skipped: write a new market_definition and a book_snapshot after the last event, or load into an empty database`,
      );
    }
    this.#skippedDefinitions.clear();
  }

  #checkSequence(sequence: bigint): void {
    const before = this.#sequence ?? this.#loadedUpTo;
    // Any event may be the first one.
    if (before < 0n) return;
    const needed = before + 1n;
    if (sequence === needed || (sequence < needed && needed <= this.#loadedUpTo + 1n)) return;
    const problem =
      this.#sequence === undefined && this.#reached !== undefined
        ? `the recording begins with event ${sequence}, but the database is at the end of block ${this.#reached.height} and needs event ${needed}`
        : `the stream ${sequence < needed ? "goes back" : "has a gap"}: event ${sequence} comes after event ${before}, where ${needed} is needed`;
    throw new RecordingError(problem);
  }

  /** Starts a new source (the next file). Its first event may be before the last one seen. */
  beginSource(repeats = false): void {
    this.#repeats = repeats;
    const seen = this.#sequence;
    if (seen === undefined) return;
    if (seen <= this.#loadedUpTo) this.#sequence = undefined;
    else this.#loadedUpTo = seen;
  }

  #checkChain(): void {
    if (this.#chainId === undefined) {
      const chainId = this.#envelope.chainId();
      this.#chainId = Buffer.from(requireId("chain_id", chainId), "latin1");
    } else if (!this.#envelope.isOfChain(this.#chainId)) {
      throw new RecordingError(
        `is of chain ${shown(this.#envelope.chainId())}, the database holds chain "${this.#chainId.toString("latin1")}"`,
      );
    }
  }

  #dispatch(sequence: bigint): FoldOutcome {
    const member = this.#envelope.member;
    if (member === eventMembers.protocolUpgradeStarted) return this.#upgrade(sequence);
    if (member === eventMembers.beginBlock) {
      this.#begin();
      return "event";
    }
    const block = this.#block;
    if (block === undefined) {
      this.counts.outsideBlocks++;
      return "event";
    }
    if (member === eventMembers.endBlock) {
      this.#end(block, sequence);
      return "block_end";
    }
    this.#event(block, member);
    return "event";
  }

  /** Counts the memory of an event that is stored. @throws RecordingError if it is too much */
  #weigh(block: OpenBlock, bytes: number): void {
    block.bytes += bytes;
    if (block.bytes <= blockBytesMax) return;
    throw new RecordingError(`makes block ${block.height} larger than ${blockBytesMax / 1024 / 1024} MiB in memory`);
  }

  #event(block: OpenBlock, member: number): void {
    if (storedMembers.has(member)) this.#weigh(block, this.#envelope.buffer.length + eventOverheadBytes);
    switch (member) {
      case eventMembers.ledgerMovements:
        this.#weigh(block, this.#ledger.add(this.#envelope.body()));
        if (this.#ledger.hasUnknownFields) this.counts.unknownFields++;
        return;
      case eventMembers.order:
        this.#order(block);
        return;
      case eventMembers.expiredOrders: {
        const { marketId, orderIds } = this.#decode(ExpiredOrdersSchema);
        this.#books.expire(marketId, orderIds, block.timeNs, this.#envelope.number());
        return;
      }
      case eventMembers.trade: {
        const trade = this.#decode(TradeSchema);
        checkTrade(trade);
        block.trades.push(trade);
        return;
      }
      case eventMembers.marketData:
        this.#marketData(block);
        return;
      case eventMembers.marketCreated:
        this.#market(block, "market_created");
        return;
      case eventMembers.marketUpdated:
        this.#market(block, "market_updated");
        return;
      case eventMembers.asset: {
        const asset = this.#decode(AssetSchema);
        checkAsset(asset);
        block.assets.set(asset.id, Uint8Array.from(this.#keptWhole("asset")));
        return;
      }
      case eventMembers.venueEvent:
        this.#venueEvent(block);
        return;
      case eventMembers.signerRemoved:
        this.#signerRemoved(block);
        return;
      case eventMembers.nodeSignature: {
        const signature = this.#decode(NodeSignatureSchema);
        checkNodeSignature(signature);
        const { id, sig, kind } = signature;
        block.signatures.push({ signatureId: id, signature: Uint8Array.from(sig), kind });
        return;
      }
      default:
        this.#skip(member);
    }
  }

  #skip(member: number): void {
    const key = this.#envelope.type * 0x20000000 + member;
    this.#skipped.set(key, (this.#skipped.get(key) ?? 0) + 1);
  }

  #begin(): void {
    const { height, timestamp } = this.#decode(BeginBlockSchema);
    if (this.#block !== undefined) {
      throw new RecordingError(`begins block ${height} inside of block ${this.#block.height}, which has not ended`);
    }
    if (height > heightMax) throw new RecordingError(`begins block ${height}; the highest is ${heightMax}`);
    requireBlockTime("begin_block.timestamp", timestamp);
    const before = this.#reached;
    if (before !== undefined) {
      if (height < before.height) {
        throw new RecordingError(`begins block ${height} after block ${before.height}; heights never decrease`);
      }
      if (timestamp < before.timeNs) {
        throw new RecordingError(
          `begins block ${height} at time ${timestamp}, before the time of block ${before.height}, ${before.timeNs}; block time never decreases`,
        );
      }
      if (height === before.height && timestamp !== before.timeNs) {
        throw new RecordingError(`begins block ${height} once more, at another time than before`);
      }
    }
    if (before?.height !== height) this.#position = 0;
    this.#block = openBlock(height, timestamp);
    this.#ledger.beginBlock(height, timestamp, this.#position);
  }

  #end(block: OpenBlock, sequence: bigint): void {
    const { height } = this.#decode(EndBlockSchema);
    if (height !== block.height) {
      throw new RecordingError(`ends block ${height}, but block ${block.height} is open`);
    }
    const changes = this.#changes();
    const batch = this.#batch;
    for (const [marketId, body] of block.markets) {
      this.#keptBytes += body.length;
      batch.markets.set(marketId, { marketId, changedSequence: sequence, body });
    }
    for (const [marketId, data] of block.marketData) {
      data.timestamp = block.timeNs;
      const body = toBinary(MarketDataSchema, data);
      this.#keptBytes += body.length;
      batch.marketData.set(marketId, { marketId, changedSequence: sequence, body });
    }
    for (const [assetId, body] of block.assets) {
      this.#keptBytes += body.length;
      batch.assets.set(assetId, { assetId, changedSequence: sequence, body });
    }
    const trades = block.trades.map((trade) => toTradeRow(trade, sequence, block.timeNs));
    for (const trade of trades) batch.trades.set(trade.marketId, trade);
    for (const [id, bundle] of block.bundles) if (!batch.bundles.has(id)) batch.bundles.set(id, bundle);
    batch.signatures.push(...block.signatures);
    this.#keepChanges(changes, sequence);
    const venueMarkets = this.#venues.takeChanged();
    for (const market of venueMarkets) batch.venueMarkets.set(market.marketId, market);
    const blockPlace = { streamSequence: sequence, height, timeNs: block.timeNs };
    const decimals = new Map(block.scales.map(({ marketId, scale }) => [marketId, scale]));
    this.#history?.endBlock(blockPlace, { changes: changes.markets, decimals, venueMarkets });
    this.#trades.endBlock(height, trades, block.scales);
    this.counts.ledgerEntries += this.#ledger.position - this.#position;
    this.#position = this.#ledger.position;
    const place = { height, timeNs: block.timeNs, streamSequence: sequence, ledgerEntries: this.#position };
    batch.blocks.set(height, this.#chain.end(place, this.#ledger.endBlock()));
    this.counts.blocks++;
    this.#block = undefined;
    this.#reach(sequence, height, block.timeNs);
  }

  /** The changes of a block in the books. @throws RecordingError for a level that is too large to store */
  #changes(): BookChanges {
    const changes = this.#books.endBlock();
    for (const { levels, marketId } of changes.markets) {
      for (const { price, volume } of levels) {
        if (volume <= volumeMax) continue;
        const field = `orders of market ${marketId} at price ${price} that add up to a volume of`;
        throw fieldError(field, `${volume}`, "64 bits");
      }
    }
    return changes;
  }

  #keepChanges({ markets, orders }: BookChanges, sequence: bigint): void {
    for (const { levels, marketId, sequenceNumber, publishedSequenceNumber } of markets) {
      this.#batch.depths.set(marketId, {
        marketId,
        sequenceNumber,
        publishedSequenceNumber,
        changedSequence: sequence,
      });
      for (const level of levels) {
        const key = `${level.side}${level.price} ${marketId}`;
        // In this order: V8 takes ten times as long to add fields to a copy.
        this.#batch.levels.set(key, { marketId, changedSequence: sequence, ...level });
      }
    }
    for (const [id, order] of orders) this.#batch.orders.set(id, order);
  }

  /** Discards an open block; a later load continues after this event. */
  #upgrade(sequence: bigint): FoldOutcome {
    const [before, block] = [this.#reached, this.#block];
    if (before === undefined && block === undefined) {
      // No block was started that could be gone on from.
      this.counts.outsideBlocks++;
      return "event";
    }
    if (before === undefined) {
      throw new RecordingError(
        `begins a protocol upgrade within block ${block?.height}, the first one, of which nothing is kept then; load from a later event on`,
      );
    }
    this.#block = undefined;
    this.#reach(sequence, before.height, before.timeNs);
    return "protocol_upgrade";
  }

  #reach(streamSequence: bigint, height: bigint, timeNs: bigint): void {
    const chainId = this.#chainId?.toString("latin1") ?? "";
    this.#reached = { chainId, streamSequence, height, timeNs };
    this.#moved = true;
  }

  #order(block: OpenBlock): void {
    const order = this.#decode(OrderSchema);
    checkOrder(order);
    this.#checkNoVenue("order", order.marketId);
    this.#books.apply(order, block.timeNs, this.#envelope.number());
  }

  #market(block: OpenBlock, kind: "market_created" | "market_updated"): void {
    const body = this.#keptWhole(kind);
    const market = this.#decode(MarketSchema);
    checkMarket(kind, market);
    this.#checkNoVenue(kind, market.id);
    block.markets.set(market.id, Uint8Array.from(body));
    this.#scale(block, market);
  }

  #scale({ scales, trades }: OpenBlock, market: Market): void {
    scales.push({ marketId: market.id, trades: trades.length, scale: decimalsOf(market) });
  }

  /** @throws RecordingError if a market has events of a venue and of a network */
  #checkNoVenue(kind: string, marketId: string): void {
    if (!this.#venues.has(marketId)) return;
    throw new RecordingError(`has ${kind} for market ${shown(marketId)}, which has venue events`);
  }

  #venueEvent(block: OpenBlock): void {
    const { event } = this.#decode(VenueEventSchema);
    const number = eventNumber(block.timeNs, this.#envelope.number());
    switch (event.case) {
      case "marketDefinition":
        this.#define(block, this.#venues.define(event.value, number));
        return;
      case "bookSnapshot":
        this.#weigh(block, (event.value.bids.length + event.value.asks.length) * levelOverheadBytes);
        this.#venues.applySnapshot(event.value, number);
        return;
      case "bookDelta":
        this.#weigh(block, (event.value.bids.length + event.value.asks.length) * levelOverheadBytes);
        this.#venues.applyDelta(event.value, number);
        return;
      case "trade":
        block.trades.push(this.#venues.trade(event.value, this.#envelope.id()));
        return;
      default:
        this.#skip(eventMembers.venueEvent);
    }
  }

  #define(block: OpenBlock, market: Market): void {
    block.markets.set(market.id, toBinary(MarketSchema, market));
    this.#scale(block, market);
  }

  #marketData(block: OpenBlock): void {
    this.#keptWhole("market_data");
    const data = this.#decode(MarketDataSchema);
    checkMarketData(data);
    block.marketData.set(data.market, data);
    const best = this.#books.best(data.market);
    this.counts.bestPricesCompared++;
    if (
      canonicalQuantity(data.bestBidPrice) === best.bidPrice &&
      data.bestBidVolume === best.bidVolume &&
      canonicalQuantity(data.bestOfferPrice) === best.offerPrice &&
      data.bestOfferVolume === best.offerVolume
    ) {
      return;
    }
    this.counts.bestPricesDiffering++;
    if (this.counts.differences.length >= mismatchesDescribedMax) return;
    this.counts.differences.push(
      `block ${block.height}, market ${data.market}: the network has bid ${data.bestBidVolume} at ${data.bestBidPrice} and offer ${data.bestOfferVolume} at ${data.bestOfferPrice}, the book has bid ${best.bidVolume} at ${best.bidPrice} and offer ${best.offerVolume} at ${best.offerPrice}`,
    );
  }

  #signerRemoved(block: OpenBlock): void {
    const event = this.#decode(ERC20MultiSigSignerRemovedSchema);
    checkSignerRemoved(event);
    this.#weigh(block, event.signatureSubmitters.length * eventOverheadBytes);
    for (const { signatureId, submitter } of event.signatureSubmitters) {
      if (block.bundles.has(signatureId)) continue;
      block.bundles.set(signatureId, {
        signatureId,
        nodeId: event.validatorId,
        submitter: submitter.toLowerCase(),
        oldSigner: event.oldSigner.toLowerCase(),
        nonce: event.nonce,
        timeNs: event.timestamp,
        epochSeq: event.epochSeq,
      });
    }
  }

  /** The bytes of a member that becomes one value of a row. @throws RecordingError if there are too many */
  #keptWhole(kind: string): Buffer {
    const body = this.#envelope.body();
    if (body.length <= keptWholeBytesMax) return body;
    throw new RecordingError(`has a ${kind} of ${body.length} bytes; one has at most ${keptWholeBytesMax}`);
  }

  /** Decodes the event's member. @throws RecordingError if the bytes are malformed */
  #decode<S extends DescMessage>(schema: S): MessageShape<S> {
    let message: MessageShape<S>;
    try {
      message = fromBinary(schema, this.#envelope.body());
    } catch (error) {
      throw new RecordingError(`holds bytes that are not a ${schema.typeName}`, error);
    }
    if (message.$unknown !== undefined) this.counts.unknownFields++;
    return message;
  }
}
