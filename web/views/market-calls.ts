import { candleId } from "../../src/domain/candle.js";
import type { Call } from "../calls/call.js";
import { requestMessage } from "../calls/request-message.js";
import { paths } from "../service/service.js";

const first = ["pagination.first", "10"] as const;

/** The calls behind the view of a market, as of a moment in Unix nanoseconds, or now. */
export function marketCalls(marketId: string, at: string | undefined): readonly Call[] {
  const request = { marketId };
  const past: readonly Call[] = at === undefined ? [] : pastCalls(marketId, at);
  return [
    ...past,
    {
      title: "Its order book, live",
      path: paths.depthUpdates,
      query: [["marketIds", marketId]],
      method: "ObserveMarketsDepthUpdates",
      request: { marketIds: [marketId] },
      response: "messages",
    },
    {
      title: "Its order book and last trade",
      path: paths.depth(marketId),
      query: [["maxDepth", "10"]],
      method: "GetLatestMarketDepth",
      request: { marketId, maxDepth: "10" },
      response: "message",
    },
    {
      title: "Its market data",
      path: paths.marketData(marketId),
      method: "GetLatestMarketData",
      request,
      response: "message",
    },
    ...tradeCalls(marketId, at),
    { title: "The market itself", path: paths.market(marketId), method: "GetMarket", request, response: "message" },
  ];
}

/** Of trades and candles: those until a moment in Unix nanoseconds, or all of them and those that follow. */
function tradeCalls(marketId: string, at: string | undefined): readonly Call[] {
  const id = candleId("1 minute", marketId);
  const until = (name: string) => (at === undefined ? [] : [[name, String(BigInt(at) + 1n)] as const]);
  const trades = [["marketIds", marketId] as const, ...until("dateRange.endTimestamp"), first];
  const candles = [["candleId", id] as const, ...until("toTimestamp"), first];
  return [
    {
      title: "Its trades",
      path: paths.trades,
      query: trades,
      method: "ListTrades",
      request: requestMessage(trades),
      response: "message",
    },
    {
      title: "Its trades, live",
      path: paths.tradesStream,
      query: [["marketIds", marketId]],
      method: "ObserveTrades",
      request: { marketIds: [marketId] },
      response: "messages",
    },
    {
      title: "Its candles of a minute",
      path: paths.candles,
      query: candles,
      method: "ListCandleData",
      request: requestMessage(candles),
      response: "message",
    },
    {
      title: "The running candle, live",
      path: paths.candleStream,
      query: [["candleId", id]],
      method: "ObserveCandleData",
      request: { candleId: id },
      response: "messages",
    },
  ];
}

function pastCalls(marketId: string, at: string): readonly Call[] {
  const service = "marketd.history.v1.MarketHistoryService";
  return [
    {
      title: "Its order book at that moment",
      path: paths.depthAt(marketId),
      query: [["timestamp", at]],
      service,
      method: "GetMarketDepthAt",
      request: { marketId, timestamp: at },
      response: "message",
    },
    {
      title: "How it went on from there",
      path: paths.depthReplay,
      query: [
        ["marketIds", marketId],
        ["fromTimestamp", at],
      ],
      service,
      method: "ReplayMarketsDepth",
      request: { marketIds: [marketId], fromTimestamp: at },
      response: "messages",
    },
  ];
}
