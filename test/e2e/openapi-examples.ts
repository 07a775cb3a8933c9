import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { liveExamples } from "../../web/docs/live-examples.js";
import type { Examples } from "../golden/openapi-responses.js";

const file = fileURLToPath(new URL("../golden/openapi-examples.json", import.meta.url));

/** Elements of a list that an example shows, and rows of a file. */
const shownMax = 2;

/** Calls each operation of a service at `url`, which ends with its base path, and keeps the responses for the document. */
export async function renewExamples(url: string, basePath: string): Promise<void> {
  const get = (path: string, accept = "*/*") => fetch(`${url}/${path}`, { headers: { accept } });
  const getJson = async (path: string): Promise<unknown> => (await get(path)).json();
  const found = await liveExamples(getJson);
  const names = ["marketId", "partyId", "assetId", "blockHeight", "candleId"];
  const [market, party, asset, blockHeight, candleId] = names.map((name) => found.get(name));
  const exported = `api/v2/ledgerentry/export?partyId=${party}&assetId=${asset}`;
  const paths = {
    GetMarket: `api/v2/market/${market}`,
    GetLatestMarketDepth: `api/v2/market/depth/${market}/latest`,
    GetLatestMarketData: `api/v2/market/data/${market}/latest`,
    ListLatestMarketData: `markets/data?market=${market}`,
    ObserveMarketsDepthUpdates: `api/v2/stream/markets/depth/updates?marketIds=${market}`,
    ListLedgerEntries: "api/v2/ledgerentry/history?pagination.first=2",
    ExportLedgerEntries: exported,
    ListMarkets: "api/v2/markets?pagination.first=1",
    ObserveMarketsData: `api/v2/stream/markets/data?marketIds=${market}`,
    ObserveTrades: `api/v2/stream/trades?marketIds=${market}`,
    ObserveCandleData: `api/v2/stream/candle/data?candleId=${candleId}`,
    ListAssets: "api/v2/assets?pagination.first=1",
    GetAsset: `api/v2/asset/${asset}`,
    ListTrades: `api/v2/trades?marketIds=${market}&pagination.first=1`,
    GetLastTrade: `api/v2/market/${market}/trade/latest`,
    ListCandleIntervals: `api/v2/candle/intervals?marketId=${market}`,
    ListCandleData: `api/v2/candle?candleId=${candleId}&pagination.first=1`,
    ListAccounts: `api/v2/accounts?filter.partyIds=${party}&pagination.first=1`,
    ListBalanceChanges: `api/v2/balance/changes?filter.partyIds=${party}&pagination.first=1`,
    GetMarketDepthAt: `api/v2/market/depth/${market}/at?blockHeight=${blockHeight}&maxDepth=2`,
    ListMarketDepthChanges: `api/v2/market/depth/${market}/changes?fromBlockHeight=${blockHeight}&pagination.first=2`,
    ReplayMarketsDepth: `api/v2/stream/markets/depth/replay?marketIds=${market}&fromBlockHeight=${blockHeight}`,
    ListERC20MultiSigSignerRemovedBundles: "api/v2/erc20/multisigcontrol/signer/removed/bundles?pagination.first=1",
  };
  const responses = Object.entries(paths).map(async ([method, path]) => [
    method,
    cut(await firstMessage(await get(path))),
  ]);
  const csv = await (await get(exported, "text/csv")).text();
  const examples: Examples = {
    parameters: { ...Object.fromEntries(found), maxDepth: "5", "pagination.first": 2 },
    responses: Object.fromEntries(await Promise.all(responses)),
    errors: {
      400: await getJson(`api/v2/market/depth/${market}/latest?maxDepth=ten`),
      // Its text names a URL of this server, whose base path is not part of the document's paths.
      404: JSON.parse(JSON.stringify(await getJson("api/v2/market/unknown")).replaceAll(`${basePath}/`, "/")),
    },
    csv: csv
      .split("\r\n")
      .slice(0, 1 + shownMax)
      .map((row) => `${row}\r\n`)
      .join(""),
    resumeToken: await resumeToken(await get(`api/v2/stream/markets/depth/updates?marketIds=${market}&alt=sse`)),
  };
  writeFileSync(file, `${JSON.stringify(examples, undefined, 2)}\n`);
}

/** The id of the first event of a stream. */
async function resumeToken(response: Response): Promise<string> {
  let text = "";
  for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += piece;
    if (text.includes("\n")) break;
  }
  return /^id: (.*)\n/.exec(text)?.[1] ?? "";
}

/** A whole response, or the first line of a stream. */
export async function firstMessage(response: Response): Promise<unknown> {
  let text = "";
  for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += piece;
    if (text.includes("\n")) break;
  }
  return JSON.parse(text.split("\n")[0] ?? "");
}

function cut(value: unknown): unknown {
  if (Array.isArray(value)) return value.slice(0, shownMax).map(cut);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, cut(inner)]));
}
