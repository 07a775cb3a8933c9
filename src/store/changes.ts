import type { Database, SnapshotConnection } from "./database.js";

/** How far the loader is. */
export interface Progress {
  /** The store's random name; empty: it has none yet. Another name means another store, whatever the place. */
  readonly storeId: string;
  readonly chainId: string;
  /** The place: the stream sequence number of the last `end_block` applied. */
  readonly streamSequence: bigint;
  readonly height: bigint;
  readonly timeNs: bigint;
  /** Tombstones of price levels with a `changedSequence` up to this may be gone. */
  readonly prunedSequence: bigint;
}

/** A market or market data row: the message, kept whole as its protobuf bytes. */
export interface BodyRow {
  readonly marketId: string;
  readonly changedSequence: bigint;
  readonly body: Uint8Array;
}

/** How far a market's depth is. */
export interface DepthRow {
  readonly marketId: string;
  readonly sequenceNumber: bigint;
  /** Of the last published update, 0: none. */
  readonly publishedSequenceNumber: bigint;
  readonly changedSequence: bigint;
  /** 1: the venue's next snapshot is needed before the book is right again. Null: no venue's market. */
  readonly stale?: number | null;
}

/** A price level; volume 0 and no orders: it vanished. */
export interface LevelRow {
  readonly marketId: string;
  /** `vega.Side`: 1 buy, 2 sell. */
  readonly side: number;
  readonly price: string;
  readonly volume: bigint;
  readonly numberOfOrders: bigint;
}

/** The last trade of a market, by the columns of `last_trade`. */
export interface TradeRow {
  readonly marketId: string;
  readonly changedSequence: bigint;
  readonly tradeId: string;
  readonly price: string;
  readonly size: bigint;
  readonly buyer: string;
  readonly seller: string;
  readonly aggressor: number;
  readonly buyOrder: string;
  readonly sellOrder: string;
  readonly timeNs: bigint;
  readonly type: number;
  readonly buyerMakerFee: string;
  readonly buyerInfrastructureFee: string;
  readonly buyerLiquidityFee: string;
  readonly sellerMakerFee: string;
  readonly sellerInfrastructureFee: string;
  readonly sellerLiquidityFee: string;
  readonly buyerAuctionBatch: bigint;
  readonly sellerAuctionBatch: bigint;
}

/** What is newer than a place, or everything, as of one snapshot. */
export interface Changes {
  readonly progress: Progress;
  readonly markets: readonly BodyRow[];
  readonly marketData: readonly BodyRow[];
  readonly depths: readonly DepthRow[];
  readonly levels: readonly LevelRow[];
  readonly trades: readonly TradeRow[];
  /** True: this is everything, and `levels` are all of every book; false: what changed, vanished levels among it. */
  readonly wholeBooks: boolean;
}

/** Where a reader stands. */
export type Place = Pick<Progress, "storeId" | "chainId" | "streamSequence">;

/** Whether two places are on the same chain in the same store, so that the higher sequence number is the newer one. */
export function isSameStore(a: Place, b: Place): boolean {
  return a.storeId === b.storeId && a.chainId === b.chainId;
}

/** Reads on a connection of its own. Every error means that the connection is gone, or should be. */
export interface ChangeReader {
  /** The cheap question, one row by its key; undefined: nothing was ever loaded. */
  progress(): Promise<Progress | undefined>;
  /**
   * All that is newer than a place, in one snapshot. Everything there is for a new reader, one of another store, and one
   * so far behind that levels may have vanished without a trace since.
   */
  changes(since: Place | undefined): Promise<Changes | undefined>;
}

const progressSql = `
  SELECT store_id AS storeId, chain_id AS chainId, stream_sequence AS streamSequence, height, block_time_ns AS timeNs,
    pruned_sequence AS prunedSequence
  FROM progress WHERE id = 1`;

const bodiesSql = (table: "market" | "market_data") =>
  `SELECT market_id AS marketId, changed_sequence AS changedSequence, body FROM ${table}`;

const depthsSql = `
  SELECT market_id AS marketId, sequence_number AS sequenceNumber,
    published_sequence_number AS publishedSequenceNumber, changed_sequence AS changedSequence, stale
  FROM market_depth LEFT JOIN venue_market USING (market_id)`;

const levelsSql =
  "SELECT market_id AS marketId, side, price, volume, number_of_orders AS numberOfOrders FROM price_level";

const tradesSql = `
  SELECT market_id AS marketId, changed_sequence AS changedSequence, trade_id AS tradeId, price, size, buyer, seller,
    aggressor, buy_order AS buyOrder, sell_order AS sellOrder, time_ns AS timeNs, type,
    buyer_maker_fee AS buyerMakerFee, buyer_infrastructure_fee AS buyerInfrastructureFee,
    buyer_liquidity_fee AS buyerLiquidityFee, seller_maker_fee AS sellerMakerFee,
    seller_infrastructure_fee AS sellerInfrastructureFee, seller_liquidity_fee AS sellerLiquidityFee,
    buyer_auction_batch AS buyerAuctionBatch, seller_auction_batch AS sellerAuctionBatch
  FROM last_trade`;

/**
 * Lends a reader on a connection that nobody else uses, until `use` settles. When the server is silent for `silenceMs`
 * while it is asked, that is a Failure `unavailable`.
 */
export function withChangeReader<T>(
  database: Database,
  use: (reader: ChangeReader) => Promise<T>,
  silenceMs: number,
): Promise<T> {
  return database.withSnapshotConnection(
    (connection) =>
      use({
        progress: () => readProgress(connection),
        changes: (since) => readChanges(connection, since),
      }),
    silenceMs,
  );
}

async function readProgress(connection: SnapshotConnection): Promise<Progress | undefined> {
  const [row] = await connection.query<{ [K in keyof Progress]: Progress[K] }>(progressSql);
  return row;
}

/**
 * One round trip, as a rule. Only the snapshot itself tells whether what is newer than the place is all that the reader
 * misses; where it is not, another one reads everything.
 */
async function readChanges(connection: SnapshotConnection, place: Place | undefined): Promise<Changes | undefined> {
  if (place !== undefined) {
    const newer = await readSnapshot(connection, place.streamSequence);
    if (newer === undefined || leadsOn(newer.progress, place)) return newer;
  }
  return readSnapshot(connection, undefined);
}

function leadsOn(progress: Progress, place: Place): boolean {
  return isSameStore(progress, place) && progress.prunedSequence <= place.streamSequence;
}

async function readSnapshot(connection: SnapshotConnection, since: bigint | undefined): Promise<Changes | undefined> {
  const newer = `changed_sequence > ${since ?? 0n}`;
  const [[progress], markets, marketData, depths, levels, trades] = await connection.snapshot<
    [Progress, BodyRow, BodyRow, DepthRow, LevelRow, TradeRow]
  >(
    progressSql,
    `${bodiesSql("market")} WHERE ${newer}`,
    `${bodiesSql("market_data")} WHERE ${newer}`,
    `${depthsSql} WHERE ${newer}`,
    `${levelsSql} WHERE ${since === undefined ? "volume > 0 OR number_of_orders > 0" : newer}`,
    `${tradesSql} WHERE ${newer}`,
  );
  if (progress === undefined) return undefined;
  return { progress, markets, marketData, depths, levels, trades, wholeBooks: since === undefined };
}
