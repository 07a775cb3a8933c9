import { type DescMessage, type DescMethod, type MessageShape, toJson } from "@bufbuild/protobuf";

/** The URL of each method, from docs/api.md. */
const templates: Readonly<Record<string, string>> = {
  GetMarket: "/api/v2/market/{marketId}",
  GetLatestMarketDepth: "/api/v2/market/depth/{marketId}/latest",
  GetLatestMarketData: "/api/v2/market/data/{marketId}/latest",
  ListLatestMarketData: "/markets/data",
  ObserveMarketsDepthUpdates: "/api/v2/stream/markets/depth/updates",
  ListLedgerEntries: "/api/v2/ledgerentry/history",
  ExportLedgerEntries: "/api/v2/ledgerentry/export",
  ListMarkets: "/api/v2/markets",
  ObserveMarketsData: "/api/v2/stream/markets/data",
  ObserveTrades: "/api/v2/stream/trades",
  ObserveCandleData: "/api/v2/stream/candle/data",
  ListAssets: "/api/v2/assets",
  GetAsset: "/api/v2/asset/{assetId}",
  ListTrades: "/api/v2/trades",
  GetLastTrade: "/api/v2/market/{marketId}/trade/latest",
  ListCandleIntervals: "/api/v2/candle/intervals",
  ListCandleData: "/api/v2/candle",
  ListAccounts: "/api/v2/accounts",
  ListBalanceChanges: "/api/v2/balance/changes",
  GetMarketDepthAt: "/api/v2/market/depth/{marketId}/at",
  ListMarketDepthChanges: "/api/v2/market/depth/{marketId}/changes",
  ReplayMarketsDepth: "/api/v2/stream/markets/depth/replay",
  ListERC20MultiSigSignerRemovedBundles: "/api/v2/erc20/multisigcontrol/signer/removed/bundles",
};

/** Path and query of a request over HTTP: what the template does not name goes into the query. */
export function urlOf<I extends DescMessage>(method: DescMethod & { input: I }, request: MessageShape<I>): string {
  const fields = toJson(method.input, request) as Record<string, unknown>;
  const query: string[] = [];
  const add = (name: string, value: unknown): void => {
    if (Array.isArray(value)) for (const each of value) add(name, each);
    else if (typeof value === "object" && value !== null) {
      for (const [key, each] of Object.entries(value)) add(`${name}.${key}`, each);
    } else query.push(`${name}=${encodeURIComponent(String(value))}`);
  };
  const path = (templates[method.name] ?? "").replace(/\{(\w+)\}/, (_, name: string) => {
    const value = encodeURIComponent(String(fields[name]));
    delete fields[name];
    return value;
  });
  for (const [name, value] of Object.entries(fields)) add(name, value);
  return query.length === 0 ? path : `${path}?${query.join("&")}`;
}
