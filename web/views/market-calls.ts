import type { Call } from "../calls/call.js";
import { paths } from "../service/service.js";

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
    { title: "The market itself", path: paths.market(marketId), method: "GetMarket", request, response: "message" },
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
