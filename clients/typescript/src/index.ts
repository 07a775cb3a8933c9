export * from "../../../gen/datanode/api/v2/trading_data_pb.js";
export * from "../../../gen/marketd/history/v1/market_history_pb.js";
export * from "../../../gen/vega/assets_pb.js";
export * from "../../../gen/vega/markets_pb.js";
export * from "../../../gen/vega/vega_pb.js";
export { DepthBook, type DepthLevel, type DepthUpdate, type FoldOutcome } from "../../../src/domain/depth-book.js";
export { comparePrices } from "../../../src/domain/price.js";
export {
  type AccountAmount,
  type AccountQuery,
  accounts,
  type BalanceChange,
  type BalanceQuery,
  balanceChanges,
} from "./balances.js";
export { messageMaxBytes } from "./bounded-fetch.js";
export { createMarketdClient, type MarketdClient } from "./client.js";
export {
  type Decimals,
  decimalPlacesMax,
  decimalsOf,
  type Scale,
  scaledAmount,
  scaledPrice,
  scaledSize,
} from "./decimals.js";
export {
  type DepthChange,
  type DepthReaderOptions,
  type ReplayOptions,
  readDepth,
  replay,
} from "./depth-reader.js";
export { type LedgerEdge, type LedgerQuery, ledgerEntries } from "./ledger-entries.js";
export { type ExportSummary, exportLedger } from "./ledger-export.js";
export { assets, type CandleInterval, candles, type MarketsOptions, markets } from "./listings.js";
export type { ListOptions } from "./pages.js";
export { bookAt, type PastBook } from "./past-book.js";
export { askedWaitMaxMs, firstWaitMs, isTransient, retryWaitMs, waitMaxMs } from "./retry.js";
export { type StreamOptions, silenceMaxMs } from "./stream.js";
export type { Time } from "./time.js";
export { trades } from "./trade-reader.js";
