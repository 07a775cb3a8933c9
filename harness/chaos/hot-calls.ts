import { shortDepth } from "./fold.js";
import { isAllMarketData, isAssetList, isDepth, isLastTrade, isMarket, isMarketData, isMarketList } from "./judge.js";
import { deadlineMs, type Finding } from "./reader.js";
import { type Caller, judged, marketOf, methods, nodesOf, orNotFound, type UnaryCall } from "./unary-call.js";

async function market({ readers, client, startedAt }: Caller): Promise<Finding> {
  const marketId = marketOf(readers);
  const response = await orNotFound(client.unary(methods.getMarket, { marketId }, deadlineMs));
  const fits = isMarket(marketId, response?.message.market);
  return judged(`market ${marketId}`, response, (at) => readers.judge.check(startedAt, at, fits));
}

async function marketData({ readers, client, startedAt }: Caller): Promise<Finding> {
  const marketId = marketOf(readers);
  const response = await orNotFound(client.unary(methods.getLatestMarketData, { marketId }, deadlineMs));
  const fits = isMarketData(marketId, response?.message.marketData);
  return judged(`market data of ${marketId}`, response, (at) => readers.judge.check(startedAt, at, fits));
}

async function allMarketData({ readers, client, startedAt }: Caller): Promise<Finding> {
  const response = await client.unary(methods.listLatestMarketData, {}, deadlineMs);
  const fits = isAllMarketData(response.message.marketsData);
  return judged("all market data", response, (at) => readers.judge.check(startedAt, at, fits));
}

async function depth({ readers, client, startedAt }: Caller): Promise<Finding> {
  const marketId = marketOf(readers);
  const isShort = readers.random.next() < 0.3;
  const maxDepth = isShort ? BigInt(shortDepth) : 0n;
  const response = await orNotFound(client.unary(methods.getLatestMarketDepth, { marketId, maxDepth }, deadlineMs));
  const fits = isDepth(marketId, response?.message, isShort);
  return judged(`depth of ${marketId}`, response, (at) => readers.judge.check(startedAt, at, fits));
}

async function lastTrade({ readers, client, startedAt }: Caller): Promise<Finding> {
  const marketId = marketOf(readers);
  const response = await orNotFound(client.unary(methods.getLastTrade, { marketId }, deadlineMs));
  const fits = isLastTrade(marketId, response?.message.trade);
  return judged(`last trade of ${marketId}`, response, (at) => readers.judge.check(startedAt, at, fits));
}

async function marketList({ readers, client, startedAt }: Caller): Promise<Finding> {
  const includeSettled = readers.random.next() < 0.5;
  const response = await client.unary(methods.listMarkets, { includeSettled }, deadlineMs);
  const fits = isMarketList(nodesOf(response.message.markets), includeSettled);
  return judged("list of markets", response, (at) => readers.judge.check(startedAt, at, fits));
}

async function assetList({ readers, client, startedAt }: Caller): Promise<Finding> {
  const response = await client.unary(methods.listAssets, {}, deadlineMs);
  const fits = isAssetList(nodesOf(response.message.assets));
  return judged("list of assets", response, (at) => readers.judge.check(startedAt, at, fits));
}

/** What is answered from memory. Depth, which changes most, more often than the rest. */
export const hotCalls: readonly UnaryCall[] = [
  market,
  marketData,
  allMarketData,
  depth,
  depth,
  lastTrade,
  marketList,
  assetList,
];
