import type { JsonObject } from "@bufbuild/protobuf";
import type { Outcome, ProtocolClient, StreamName, UnaryName } from "./protocol-client.js";

/** A call of a client. */
export interface Operation {
  readonly method: UnaryName | StreamName;
  readonly request: JsonObject;
}

/** What is asked for. */
export interface Known {
  /** Two markets that have data. */
  readonly market: string;
  readonly other: string;
  /** A party that has entries of an announced asset. */
  readonly party: string;
  readonly asset: string;
}

/** All operations, and failures of calls and streams. */
export function operationsOn({ market, other, party, asset }: Known): readonly Operation[] {
  return [
    { method: "getMarket", request: { marketId: other } },
    { method: "getMarket", request: { marketId: "nowhere" } },
    { method: "getLatestMarketDepth", request: { marketId: market, maxDepth: "2" } },
    { method: "getLatestMarketData", request: { marketId: market } },
    { method: "getLatestMarketData", request: { marketId: "caf\u00e9" } },
    { method: "listLatestMarketData", request: {} },
    { method: "listLatestMarketData", request: { market: [other, market] } },
    { method: "observeMarketsDepthUpdates", request: { marketIds: [market] } },
    { method: "observeMarketsDepthUpdates", request: { marketIds: [market, "nowhere"] } },
    {
      method: "listLedgerEntries",
      request: { filter: { fromAccountFilter: { partyIds: [party] } }, pagination: { first: 2, newestFirst: false } },
    },
    { method: "listLedgerEntries", request: { pagination: { first: 0 } } },
    { method: "exportLedgerEntries", request: { partyId: party, assetId: asset } },
    { method: "exportLedgerEntries", request: { assetId: asset } },
    { method: "listERC20MultiSigSignerRemovedBundles", request: { pagination: { first: 1 } } },
    { method: "listMarkets", request: { pagination: { first: 1 }, includeSettled: false } },
    { method: "listMarkets", request: { pagination: { after: "nowhere" } } },
    { method: "observeMarketsData", request: { marketIds: [market, other] } },
    { method: "observeMarketsData", request: { marketIds: ["nowhere"] } },
    { method: "listAssets", request: { pagination: { first: 2, newestFirst: true } } },
    { method: "listAssets", request: { assetId: "nowhere" } },
    { method: "getAsset", request: { assetId: asset } },
    { method: "getAsset", request: { assetId: "nowhere" } },
    { method: "listTrades", request: { marketIds: [market], pagination: { first: 2 } } },
    { method: "listTrades", request: { partyIds: [party], dateRange: { startTimestamp: "2", endTimestamp: "1" } } },
    { method: "observeTrades", request: { marketIds: [market], partyIds: [party] } },
    { method: "observeTrades", request: { marketIds: ["nowhere"] } },
    { method: "getLastTrade", request: { marketId: market } },
    { method: "getLastTrade", request: { marketId: "nowhere" } },
    { method: "listCandleIntervals", request: { marketId: market } },
    { method: "listCandleIntervals", request: { marketId: "nowhere" } },
    { method: "listCandleData", request: { candleId: `trades_candle_1_minute_${market}`, pagination: { first: 2 } } },
    { method: "listCandleData", request: { candleId: "trades_candle_2_minutes" } },
    { method: "observeCandleData", request: { candleId: `trades_candle_1_hour_${market}` } },
    { method: "observeCandleData", request: { candleId: "trades_candle_block_nowhere" } },
    { method: "listAccounts", request: { filter: { partyIds: [party] }, asOf: "1" } },
    { method: "listAccounts", request: { filter: { partyIds: [party, other] } } },
    { method: "listBalanceChanges", request: { filter: { assetId: asset }, pagination: { first: 3 } } },
    { method: "listBalanceChanges", request: { pagination: { last: 0 } } },
    { method: "getMarketDepthAt", request: { marketId: market, blockHeight: "5", maxDepth: "2" } },
    { method: "getMarketDepthAt", request: { marketId: market, blockHeight: "999999999" } },
    { method: "getMarketDepthAt", request: { marketId: market } },
    { method: "listMarketDepthChanges", request: { marketId: market, pagination: { first: 2 } } },
    { method: "replayMarketsDepth", request: { marketIds: [market], fromBlockHeight: "5", untilBlockHeight: "8" } },
    { method: "replayMarketsDepth", request: { marketIds: [market], everyUpdate: true } },
  ];
}

function isStream(method: Operation["method"]): method is StreamName {
  return method.startsWith("observe") || method === "exportLedgerEntries" || method === "replayMarketsDepth";
}

/** How many messages of a method are compared: of the endless stream the first, which holds whole books. */
export function messagesMax(method: Operation["method"]): number {
  return method === "exportLedgerEntries" ? 1_000 : 1;
}

/** What a client gets: one outcome, or those of a stream. */
export async function outcomesOf(client: ProtocolClient, { method, request }: Operation): Promise<Outcome[]> {
  if (isStream(method)) return client.stream(method, request, messagesMax(method));
  return [await client.unary(method, request)];
}
