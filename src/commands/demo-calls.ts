import type { MarketdClient } from "../../clients/typescript/src/client.js";
import { Market_TradingMode } from "../../gen/vega/markets_pb.js";
import { AccountType } from "../../gen/vega/vega_pb.js";
import { patiently } from "../client/patience.js";
import { openServer } from "../client/server.js";

/** How long to wait until the service has read its data. */
const readyMsMax = 30_000;

/** This process serves what it asks for here, and its certificate may name another host, or be signed by itself. */
const unverified = { rejectUnauthorized: false };

/**
 * Calls with this demo's own data, to paste. It asks the service as any client would. With TLS, neither it nor the calls
 * verify the certificate.
 * @param url with base path
 * @param origin without
 */
export async function demoCalls(url: string, origin: string): Promise<string> {
  const server = openServer(url, unverified);
  const patience = { giveUpMs: readyMsMax, signal: new AbortController().signal, onFailure: () => {} };
  const ask = async () => [await busiestMarket(server.client), await traderOf(server.client)] as const;
  const [marketId, { party, asset }] = await patiently(server, patience, ask);
  const isTls = origin.startsWith("https:");
  const curl = isTls ? "curl -sk" : "curl -s";
  const grpcurl = isTls ? "grpcurl -insecure" : "grpcurl -plaintext";
  const grpc = `${grpcurl}${marketId === "" ? "" : ` -d '{"market_id":"${marketId}"}'`} ${new URL(origin).host}`;
  const service = "datanode.api.v2.TradingDataService";
  return `
marketd serves a simulated network on ${url}

  look at it            ${origin}/
  try every call        ${url}/docs
  a market              ${curl} '${url}/api/v2/market/${marketId}'
  its depth             ${curl} '${url}/api/v2/market/depth/${marketId}/latest?maxDepth=5'
  its data              ${curl} '${url}/api/v2/market/data/${marketId}/latest'
  all market data       ${curl} '${url}/markets/data'
  live depth updates    ${curl}N '${url}/api/v2/stream/markets/depth/updates?marketIds=${marketId}'
  as events             ${curl}N -H 'Accept: text/event-stream' '${url}/api/v2/stream/markets/depth/updates'
  a party's ledger      ${curl} '${url}/api/v2/ledgerentry/history?filter.fromAccountFilter.partyIds=${party}&pagination.first=3'
  its export            ${curl} -H 'Accept: text/csv' '${url}/api/v2/ledgerentry/export?partyId=${party}&assetId=${asset}'
  signer removals       ${curl} '${url}/api/v2/erc20/multisigcontrol/signer/removed/bundles?pagination.first=2'
  by gRPC               ${grpc} ${service}/GetLatestMarketDepth
  what there is         ${grpcurl} ${new URL(origin).host} describe ${service}

Ctrl-C ends it, and nothing is left running.
`;
}

/** The market in continuous trading with the most levels; empty if there is none. */
async function busiestMarket(client: MarketdClient): Promise<string> {
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
async function traderOf(client: MarketdClient): Promise<{ party: string; asset: string }> {
  const filter = { fromAccountFilter: { accountTypes: [AccountType.GENERAL] } };
  const { ledgerEntries } = await client.listLedgerEntries({ filter, pagination: { first: 50 } });
  const found = ledgerEntries?.edges.find(({ node }) => node?.fromAccountPartyId !== "network")?.node;
  return { party: found?.fromAccountPartyId ?? "network", asset: found?.assetId ?? "" };
}
