import { type DescMessage, type DescMethod, type JsonValue, toJson } from "@bufbuild/protobuf";
import { TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { MarketHistoryService } from "../../gen/marketd/history/v1/market_history_pb.js";
import { jsonWriteOptions } from "../../src/encoding/json-encoder.js";

/** The name of a unary method, as clients in TypeScript call it. */
export type UnaryName =
  | "getMarket"
  | "getLatestMarketDepth"
  | "getLatestMarketData"
  | "listLatestMarketData"
  | "listLedgerEntries"
  | "listERC20MultiSigSignerRemovedBundles"
  | "listMarkets"
  | "listAssets"
  | "getAsset"
  | "listTrades"
  | "getLastTrade"
  | "listCandleIntervals"
  | "listCandleData"
  | "listAccounts"
  | "listBalanceChanges"
  | "getMarketDepthAt"
  | "listMarketDepthChanges";

/** The name of a streaming method. */
export type StreamName =
  | "observeMarketsDepthUpdates"
  | "observeMarketsData"
  | "observeTrades"
  | "observeCandleData"
  | "exportLedgerEntries"
  | "replayMarketsDepth";

/** What came back, whatever the protocol: the documented JSON, or the error. */
export type Outcome =
  | { readonly reply: JsonValue }
  | { readonly error: { readonly code: number; readonly message: string; readonly reason: string | undefined } };

/** A way to reach the service. Requests are the JSON form of the request message. */
export interface ProtocolClient {
  readonly name: string;
  unary(method: UnaryName, request: JsonValue): Promise<Outcome>;
  /** The first `count` messages, or all if the stream ends before. */
  stream(method: StreamName, request: JsonValue, count: number): Promise<Outcome[]>;
  close(): void;
}

/** The definition of a method. */
export function methodOf(name: UnaryName | StreamName): DescMethod {
  return { ...TradingDataService.method, ...MarketHistoryService.method }[name];
}

/** The path of a method in gRPC, gRPC-Web and Connect. */
export function rpcPath(name: UnaryName | StreamName): string {
  return `/${methodOf(name).parent.typeName}/${methodOf(name).name}`;
}

/** A message that came, as the documented JSON. */
export function outcomeOf(desc: DescMessage, message: unknown): Outcome {
  return { reply: toJson(desc, message as never, jsonWriteOptions) };
}
