import type { Call } from "../calls/call.js";
import { paths } from "../service/service.js";

/** The calls behind the view of a market. */
export function marketCalls(marketId: string): readonly Call[] {
  const request = { marketId };
  return [
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
