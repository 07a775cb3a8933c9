import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { Network, networkDefaults } from "../../src/simulator/network.js";
import { createLog } from "../../src/telemetry/log.js";

/**
 * The blocks of each load: the loader goes on with few rows and with many, as with a store whose past was not kept at
 * first, nor for a block in between.
 */
const loads = [
  { blocks: 40, keepBooks: "off" },
  { blocks: 20, keepBooks: "all" },
  { blocks: 1, keepBooks: "off" },
  { blocks: 50, keepBooks: "all" },
] as const;

/** Loads a network that is the same each time, into a store that is migrated and empty. */
export async function loadNetwork(databaseUrl: string): Promise<void> {
  const network = new Network({
    ...networkDefaults,
    seed: 22,
    chainId: "same-chain",
    parties: 20,
    entriesPerBlock: 10,
  });
  for (const { blocks, keepBooks } of loads) {
    const recording = Array.from({ length: blocks }, () => network.nextBlock());
    const source = streamSource(Readable.from(recording, { objectMode: false }), "a simulated network");
    await load({ database: databaseUrl, sources: [source], keepBooks, log: createLog("silent") });
  }
}

/** The bodies of a service's responses, by path, over all operations that end: hundreds of pages among them. */
export async function networkResponses(serviceUrl: string): Promise<ReadonlyMap<string, string>> {
  const responses = new Map<string, string>();
  const get = async (path: string): Promise<string> => {
    const response = await fetch(serviceUrl + path);
    const body = await response.text();
    if (response.status !== 200) throw new Error(`${path}: ${response.status} ${body}`);
    responses.set(path, body);
    return body;
  };
  /** All pages of a list, in one direction. */
  const pages = async (path: string, list: string, parameters: string): Promise<unknown[]> => {
    const nodes: unknown[] = [];
    for (let cursor = ""; ; ) {
      const after = cursor === "" ? "" : `&pagination.after=${encodeURIComponent(cursor)}`;
      const page = JSON.parse(await get(`${path}?${parameters}${after}`))[list] as Page;
      nodes.push(...page.edges.map(({ node }) => node));
      if (!page.pageInfo.hasNextPage) return nodes;
      cursor = page.pageInfo.endCursor;
    }
  };
  const { marketsData } = JSON.parse(await get("/api/v2/markets/data")) as { marketsData: { market: string }[] };
  for (const { market } of marketsData) {
    for (const path of [
      `${market}`,
      `depth/${market}/latest`,
      `depth/${market}/latest?maxDepth=3`,
      `data/${market}/latest`,
    ]) {
      await get(`/api/v2/market/${path}`);
    }
    for (const moment of ["blockHeight=63", "blockHeight=80&maxDepth=5"]) {
      await get(`/api/v2/market/depth/${market}/at?${moment}`);
    }
    const changes = `/api/v2/market/depth/${market}/changes`;
    for (const range of ["fromBlockHeight=63", "fromBlockHeight=70&untilBlockHeight=90&pagination.newestFirst=true"]) {
      await pages(changes, "changes", `${range}&pagination.first=7`);
    }
  }
  const history = "/api/v2/ledgerentry/history";
  const entries = (await pages(history, "ledgerEntries", "pagination.first=1000")) as Entry[];
  const most = (values: (string | undefined)[]) =>
    [...new Set(values.filter((value) => value !== undefined && value !== ""))].slice(0, 4);
  const parties = most(entries.map(({ fromAccountPartyId }) => fromAccountPartyId));
  const markets = most(entries.map(({ fromAccountMarketId }) => fromAccountMarketId));
  const assets = most(entries.map(({ assetId }) => assetId));
  const types = most(entries.map(({ fromAccountType }) => fromAccountType));
  const times = entries.map(({ timestamp }) => timestamp).sort();
  const time = (at: number) => times[Math.floor(times.length * at)] ?? "0";
  const range = `dateRange.startTimestamp=${time(0.3)}&dateRange.endTimestamp=${time(0.7)}`;
  const sides = ["from", "to"].map((side) => `filter.${side}AccountFilter`);
  const filters = [
    "",
    range,
    ...parties.flatMap((party) => sides.map((side) => `${side}.partyIds=${party}`)),
    ...parties.map((party) => `${sides.map((side) => `${side}.partyIds=${party}`).join("&")}&${range}`),
    ...parties
      .slice(1)
      .map(
        (party) => `filter.closeOnAccountFilters=true&${sides[0]}.partyIds=${parties[0]}&${sides[1]}.partyIds=${party}`,
      ),
    ...entries
      .filter(
        ({ fromAccountPartyId = "", toAccountPartyId = "" }) => fromAccountPartyId !== "" && toAccountPartyId !== "",
      )
      .slice(0, 2)
      .map(
        ({ fromAccountPartyId, toAccountPartyId }) =>
          `filter.closeOnAccountFilters=true&${sides[0]}.partyIds=${fromAccountPartyId}&${sides[1]}.partyIds=${toAccountPartyId}`,
      ),
    ...markets.map((market) => `${sides[0]}.marketIds=${market}`),
    ...assets.map((asset) => `${sides[0]}.assetId=${asset}`),
    ...types.flatMap((type) => sides.map((side) => `${side}.accountTypes=${type}`)),
  ];
  for (const [index, filter] of filters.entries()) {
    const size = [25, 60, 500][index % 3];
    await pages(
      history,
      "ledgerEntries",
      `${filter}&pagination.first=${size}&pagination.newestFirst=${index % 2 === 0}`,
    );
    await get(`${history}?${filter}&pagination.last=20`);
  }
  for (const party of parties) {
    for (const asset of assets) await get(`/api/v2/ledgerentry/export?partyId=${party}&assetId=${asset}`);
  }
  await pages("/api/v2/markets", "markets", "pagination.first=5");
  await pages("/api/v2/assets", "assets", "pagination.first=2");
  const trades = (await pages("/api/v2/trades", "trades", "pagination.first=40")) as TradeIds[];
  for (const { buyer, buyOrder, sellOrder, marketId } of trades.slice(0, 3)) {
    await pages("/api/v2/trades", "trades", `partyIds=${buyer}&marketIds=${marketId}&pagination.first=3`);
    await pages("/api/v2/trades", "trades", `orderIds=${buyOrder}&orderIds=${sellOrder}&${range}`);
    await get(`/api/v2/market/${marketId}/trade/latest`);
    await get(`/api/v2/candle/intervals?marketId=${marketId}`);
    for (const interval of ["block", "1_minute", "1_day"]) {
      await pages("/api/v2/candle", "candles", `candleId=trades_candle_${interval}_${marketId}&pagination.first=7`);
    }
  }
  for (const filter of ["", ...parties.map((party) => `filter.partyIds=${party}`)]) {
    await pages("/api/v2/accounts", "accounts", `${filter}&pagination.first=90`);
    await pages("/api/v2/accounts", "accounts", `${filter}&asOf=${time(0.5)}&pagination.first=90`);
    await pages("/api/v2/balance/changes", "balances", `${filter}&pagination.first=300`);
  }
  const removed = "/api/v2/erc20/multisigcontrol/signer/removed/bundles";
  const bundles = (await pages(removed, "bundles", "pagination.first=2")) as { epochSeq: string; newSigner: string }[];
  for (const epoch of new Set(bundles.map(({ epochSeq }) => epochSeq)))
    await pages(removed, "bundles", `epochSeq=${epoch}`);
  return responses;
}

interface TradeIds {
  readonly buyer: string;
  readonly buyOrder: string;
  readonly sellOrder: string;
  readonly marketId: string;
}

interface Page {
  readonly edges: readonly { readonly node: unknown }[];
  readonly pageInfo: { readonly hasNextPage: boolean; readonly endCursor: string };
}

interface Entry {
  readonly timestamp: string;
  readonly assetId: string;
  readonly fromAccountPartyId?: string;
  readonly toAccountPartyId?: string;
  readonly fromAccountMarketId?: string;
  readonly fromAccountType: string;
}

/** One digest of all of them, their paths included. */
export function digestOf(responses: ReadonlyMap<string, string>): string {
  const hash = createHash("sha256");
  for (const [path, body] of responses) hash.update(`${path}\n${body.length}\n${body}\n`);
  return hash.digest("hex");
}
