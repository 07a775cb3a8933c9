// The parts of the service's responses that the page shows, as JSON: 64-bit integers and amounts are text.

/** Fields that are not known yet are left out. */
export interface StatusResponse {
  /** "ready", or why the service may not be sent traffic. */
  readonly status: string;
  readonly blockHeight?: string;
  readonly blockTimestamp?: string;
  /** By the service's clock. */
  readonly blockAgeSeconds?: number;
  readonly streamSequence?: string;
  readonly markets?: number;
  readonly marketsWithData?: number;
  readonly staleMarkets?: number;
  /** The first 100 by id. */
  readonly staleMarketIds?: readonly string[];
  /** Since the database last answered. */
  readonly databaseSilenceSeconds?: number;
}

export interface Market {
  readonly id: string;
  readonly tradableInstrument?: {
    readonly instrument?: {
      readonly code: string;
      readonly name: string;
      readonly future?: { readonly settlementAsset: string; readonly quoteName: string };
      readonly metadata?: { readonly tags: readonly string[] };
    };
  };
  readonly decimalPlaces: string;
  readonly positionDecimalPlaces: string;
  readonly state: string;
  readonly tradingMode: string;
  readonly fees?: {
    readonly factors?: { readonly makerFee: string; readonly infrastructureFee: string; readonly liquidityFee: string };
  };
  readonly marketTimestamps?: { readonly open: string; readonly close: string };
}

export interface PriceBounds {
  readonly minValidPrice: string;
  readonly maxValidPrice: string;
  readonly referencePrice: string;
  readonly trigger?: { readonly horizon: string; readonly probability: string };
}

/** Without the best prices: those come from the order book alone. */
export interface MarketData {
  readonly market: string;
  readonly markPrice: string;
  readonly openInterest: string;
  readonly auctionStart: string;
  readonly auctionEnd: string;
  readonly trigger: string;
  readonly indicativePrice: string;
  readonly indicativeVolume: string;
  readonly suppliedStake: string;
  readonly targetStake: string;
  readonly timestamp: string;
  readonly marketState: string;
  readonly marketTradingMode: string;
  readonly priceMonitoringBounds: readonly PriceBounds[];
}

export interface Trade {
  readonly id: string;
  readonly price: string;
  readonly size: string;
  readonly aggressor: string;
  readonly timestamp: string;
}

export interface PriceLevel {
  readonly price: string;
  readonly volume: string;
  readonly numberOfOrders: string;
}

export interface MarketDepthUpdate {
  readonly marketId: string;
  readonly buy: readonly PriceLevel[];
  readonly sell: readonly PriceLevel[];
  readonly sequenceNumber: string;
  readonly previousSequenceNumber: string;
}

export interface BlockPlace {
  readonly height: string;
  readonly timestamp: string;
  readonly streamSequence: string;
}

export interface MarketHistoryStatus {
  readonly marketId: string;
  readonly state: string;
  readonly decimalPlaces: string;
  readonly positionDecimalPlaces: string;
}

/** A message of a replay, which may be live. */
export interface ReplayResponse {
  readonly update: readonly MarketDepthUpdate[];
  /** Absent: the message goes on in the next. */
  readonly block?: BlockPlace;
  readonly resumeToken: string;
  readonly status: readonly MarketHistoryStatus[];
  readonly caughtUp: boolean;
}

/** A whole message: its parts put together. */
export type ReplayMessage = ReplayResponse & { readonly block: BlockPlace };

export interface PastDepthResponse {
  readonly buy: readonly PriceLevel[];
  readonly sell: readonly PriceLevel[];
  readonly lastTrade?: Trade;
  readonly sequenceNumber: string;
  readonly block: BlockPlace;
  readonly decimalPlaces: string;
  readonly positionDecimalPlaces: string;
}

export interface ChangesResponse {
  readonly changes: { readonly edges: readonly { readonly block: BlockPlace }[] };
}

export interface PageInfo {
  readonly hasNextPage: boolean;
  readonly hasPreviousPage: boolean;
  readonly startCursor: string;
  readonly endCursor: string;
}

export interface Edge<T> {
  readonly node: T;
  readonly cursor: string;
}

export interface Connection<T> {
  readonly edges: readonly Edge<T>[];
  readonly pageInfo: PageInfo;
}

export interface LedgerEntry {
  readonly timestamp: string;
  readonly quantity: string;
  readonly transferType: string;
  readonly assetId: string;
  readonly fromAccountType: string;
  readonly toAccountType: string;
  readonly fromAccountPartyId: string;
  readonly toAccountPartyId: string;
  readonly fromAccountMarketId?: string;
  readonly toAccountMarketId?: string;
  readonly fromAccountBalance: string;
  readonly toAccountBalance: string;
}

export interface LedgerEntriesResponse {
  readonly ledgerEntries: Connection<LedgerEntry>;
}

export interface Asset {
  readonly id: string;
  readonly details?: { readonly name: string; readonly symbol: string; readonly decimals: string };
}

export interface Account {
  readonly owner: string;
  readonly balance: string;
  readonly asset: string;
  /** Empty: the account is of no market. */
  readonly marketId: string;
  readonly type: string;
}

export interface BalanceChange {
  readonly timestamp: string;
  readonly balance: string;
  readonly partyId: string;
  readonly assetId: string;
  readonly marketId?: string;
  readonly accountType: string;
}

/** The trades of a period in brief. */
export interface Candle {
  readonly start: string;
  readonly lastUpdate: string;
  readonly open: string;
  readonly high: string;
  readonly low: string;
  readonly close: string;
  readonly volume: string;
}

export interface CandleInterval {
  readonly interval: string;
  readonly candleId: string;
}

export interface SignerBundle {
  readonly oldSigner: string;
  readonly submitter: string;
  readonly nonce: string;
  readonly timestamp: string;
  readonly signatures: string;
  readonly epochSeq: string;
}

export interface SignerBundlesResponse {
  readonly bundles: Connection<SignerBundle>;
}
