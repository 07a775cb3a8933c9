import { setTimeout as sleep } from "node:timers/promises";
import { Market_TradingMode } from "../../gen/vega/markets_pb.js";
import { AccountType } from "../../gen/vega/vega_pb.js";
import { openServer, type Server } from "../client/server.js";

/** How long to wait until the service has read its data. */
const readyMsMax = 30_000;
const pollMs = 100;

/**
 * Calls with this demo's own data, to paste. It asks the service as any client would.
 * @param url with base path
 * @param origin without
 */
export async function demoCalls(url: string, origin: string): Promise<string> {
  await untilReady(origin);
  const server = openServer(url);
  const marketId = await busiestMarket(server);
  const { party, asset } = await traderOf(server);
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
async function busiestMarket({ client }: Server): Promise<string> {
  const { marketsData } = await client.listLatestMarketData({});
  let busiest = { id: "", levels: -1 };
  for (const { market, marketTradingMode } of marketsData) {
    if (marketTradingMode !== Market_TradingMode.CONTINUOUS) continue;
    const { buy, sell } = await client.getLatestMarketDepth({ marketId: market });
    if (buy.length + sell.length > busiest.levels) busiest = { id: market, levels: buy.length + sell.length };
  }
  return busiest.id;
}

/** A party that paid something recently, and the asset. */
async function traderOf({ client }: Server): Promise<{ party: string; asset: string }> {
  const filter = { fromAccountFilter: { accountTypes: [AccountType.GENERAL] } };
  const { ledgerEntries } = await client.listLedgerEntries({ filter, pagination: { first: 50 } });
  const found = ledgerEntries?.edges.find(({ node }) => node?.fromAccountPartyId !== "network")?.node;
  return { party: found?.fromAccountPartyId ?? "network", asset: found?.assetId ?? "" };
}

async function untilReady(origin: string): Promise<void> {
  const until = performance.now() + readyMsMax;
  for (;;) {
    const response = await fetch(`${origin}/readyz`);
    await response.body?.cancel();
    if (response.ok) return;
    if (performance.now() > until) throw new Error(`${origin} is not ready after ${readyMsMax} ms`);
    await sleep(pollMs);
  }
}
