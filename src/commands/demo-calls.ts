import { setTimeout as sleep } from "node:timers/promises";

/** How long to wait for the service's first data. */
const firstDataMs = 30_000;
const retryMs = 100;

interface Level {
  readonly volume: string;
}

interface MarketData {
  readonly market: string;
  readonly marketTradingMode: string;
}

interface Node {
  readonly fromAccountPartyId: string;
  readonly fromAccountMarketId?: string;
  readonly assetId: string;
}

/**
 * Calls with this demo's own data, to paste. It asks the service as any client would.
 * @param url with base path
 * @param origin without
 */
export async function demoCalls(url: string, origin: string): Promise<string> {
  const marketId = await busiestMarket(url);
  const { party, asset } = await traderOf(url);
  const grpc = `grpcurl -plaintext${marketId === "" ? "" : ` -d '{"market_id":"${marketId}"}'`} ${new URL(origin).host}`;
  const service = "datanode.api.v2.TradingDataService";
  return `
marketd serves a simulated network on ${url}

  look at it            ${origin}/
  try every call        ${url}/docs
  a market              curl -s '${url}/api/v2/market/${marketId}'
  its depth             curl -s '${url}/api/v2/market/depth/${marketId}/latest?maxDepth=5'
  its data              curl -s '${url}/api/v2/market/data/${marketId}/latest'
  all market data       curl -s '${url}/markets/data'
  live depth updates    curl -sN '${url}/api/v2/stream/markets/depth/updates?marketIds=${marketId}'
  as events             curl -sN -H 'Accept: text/event-stream' '${url}/api/v2/stream/markets/depth/updates'
  a party's ledger      curl -s '${url}/api/v2/ledgerentry/history?filter.fromAccountFilter.partyIds=${party}&pagination.first=3'
  its export            curl -s -H 'Accept: text/csv' '${url}/api/v2/ledgerentry/export?partyId=${party}&assetId=${asset}'
  signer removals       curl -s '${url}/api/v2/erc20/multisigcontrol/signer/removed/bundles?pagination.first=2'
  by gRPC               ${grpc} ${service}/GetLatestMarketDepth
  what there is         grpcurl -plaintext ${new URL(origin).host} describe ${service}

Ctrl-C ends it, and nothing is left running.
`;
}

/** The market in continuous trading with the most levels; empty if there is none. */
async function busiestMarket(url: string): Promise<string> {
  const { marketsData } = (await firstData(`${url}/markets/data`)) as { marketsData: MarketData[] };
  let busiest = { id: "", levels: -1 };
  for (const { market, marketTradingMode } of marketsData) {
    if (marketTradingMode !== "TRADING_MODE_CONTINUOUS") continue;
    const depth = (await firstData(`${url}/api/v2/market/depth/${encodeURIComponent(market)}/latest`)) as {
      buy: Level[];
      sell: Level[];
    };
    const levels = depth.buy.length + depth.sell.length;
    if (levels > busiest.levels) busiest = { id: market, levels };
  }
  return busiest.id;
}

/** A party that paid something recently, and the asset. */
async function traderOf(url: string): Promise<{ party: string; asset: string }> {
  const history = `${url}/api/v2/ledgerentry/history?filter.fromAccountFilter.accountTypes=ACCOUNT_TYPE_GENERAL&pagination.first=50`;
  const { ledgerEntries } = (await firstData(history)) as { ledgerEntries: { edges: { node: Node }[] } };
  const found = ledgerEntries.edges.find(({ node }) => node.fromAccountPartyId !== "network")?.node;
  return { party: found?.fromAccountPartyId ?? "network", asset: found?.assetId ?? "" };
}

/** The JSON at an address, once the service is ready. */
async function firstData(url: string): Promise<unknown> {
  const until = performance.now() + firstDataMs;
  for (;;) {
    const response = await fetch(url);
    if (response.ok) return await response.json();
    if (response.status !== 503 || performance.now() > until) throw new Error(`${url} answers ${response.status}`);
    await response.body?.cancel();
    await sleep(retryMs);
  }
}
