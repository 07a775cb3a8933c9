import { TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { CallFailure, codes } from "./call-failure.js";
import { shortDepth } from "./fold.js";
import {
  isAllMarketData,
  isDepth,
  isMarket,
  isMarketData,
  isNewestBundles,
  isNewestEntries,
  type Judge,
  type Verdict,
} from "./judge.js";
import { deadlineMs, type Finding, type Readers, repeat } from "./reader.js";
import { protocols, type RpcClient, rpcClient } from "./rpc-client.js";

const methods = TradingDataService.method;
const pauseMs = 200;
const pageSize = 20;

/** Callers of the six unary methods over each protocol, each with one connection; and one with a new one each time. */
export function startUnaryReaders(readers: Readers): Promise<void>[] {
  const loops: Promise<void>[] = [];
  for (const protocol of protocols) {
    const hot = rpcClient(protocol, readers.port);
    const ledger = rpcClient(protocol, readers.port);
    loops.push(
      repeat(readers, `${protocol} hot`, "hot", pauseMs, (startedAt) => hotCall(readers, hot, startedAt)),
      repeat(readers, `${protocol} ledger`, "ledger", pauseMs, (startedAt) => ledgerCall(readers, ledger, startedAt)),
    );
  }
  const fresh = rpcClient("REST", readers.port, false);
  loops.push(
    repeat(readers, "REST, new connections", "hot", pauseMs, (startedAt) => hotCall(readers, fresh, startedAt)),
  );
  return loops;
}

function marketOf({ judge, random }: Readers): string {
  const markets = [...judge.chain.fold.markets.keys()];
  return markets.length === 0 ? "none" : random.pick(markets);
}

async function hotCall(readers: Readers, client: RpcClient, startedAt: number): Promise<Finding> {
  const { judge, random } = readers;
  const marketId = marketOf(readers);
  switch (random.below(5)) {
    case 0: {
      const response = await orNotFound(client.unary(methods.getMarket, { marketId }, deadlineMs));
      return judged(`market ${marketId}`, response, (at) =>
        judge.check(startedAt, at, isMarket(marketId, response?.message.market)),
      );
    }
    case 1: {
      const response = await orNotFound(client.unary(methods.getLatestMarketData, { marketId }, deadlineMs));
      const fits = isMarketData(marketId, response?.message.marketData);
      return judged(`market data of ${marketId}`, response, (at) => judge.check(startedAt, at, fits));
    }
    case 2: {
      const response = await client.unary(methods.listLatestMarketData, {}, deadlineMs);
      const fits = isAllMarketData(response.message.marketsData);
      return judged("all market data", response, (at) => judge.check(startedAt, at, fits));
    }
    default: {
      const isShort = random.next() < 0.3;
      const maxDepth = isShort ? BigInt(shortDepth) : 0n;
      const response = await orNotFound(client.unary(methods.getLatestMarketDepth, { marketId, maxDepth }, deadlineMs));
      const fits = isDepth(marketId, response?.message, isShort);
      return judged(`depth of ${marketId}`, response, (at) => judge.check(startedAt, at, fits));
    }
  }
}

async function ledgerCall(readers: Readers, client: RpcClient, startedAt: number): Promise<Finding> {
  const { judge, random } = readers;
  if (random.next() < 0.25) {
    const response = await client.unary(
      methods.listERC20MultiSigSignerRemovedBundles,
      { pagination: { first: pageSize } },
      deadlineMs,
    );
    const nodes = (response.message.bundles?.edges ?? []).flatMap(({ node }) => (node === undefined ? [] : [node]));
    return judged("bundles", response, (at) => judge.check(startedAt, at, isNewestBundles(pageSize, nodes)));
  }
  const party = random.next() < 0.3 ? undefined : partyOf(judge, random.next());
  const filter = party === undefined ? {} : { filter: filterOf(party) };
  const request = { ...filter, pagination: { first: pageSize } };
  const response = await client.unary(methods.listLedgerEntries, request, deadlineMs);
  const nodes = (response.message.ledgerEntries?.edges ?? []).flatMap(({ node }) => (node === undefined ? [] : [node]));
  const fits = isNewestEntries(party, pageSize, nodes);
  return judged(`entries of ${party ?? "all"}`, response, (at) => judge.check(startedAt, at, fits));
}

/** The filter that selects what a party pays or receives. */
export function filterOf(party: string) {
  const account = { partyIds: [party] };
  return { fromAccountFilter: account, toAccountFilter: account, closeOnAccountFilters: false };
}

/** Some party of the chain. @param fraction from 0 up to 1 */
export function partyOf(judge: Judge, fraction: number): string {
  const parties = [...judge.chain.fold.rowsOfParty.keys()];
  return parties[Math.floor(fraction * parties.length)] ?? "nobody";
}

/** NOT_FOUND is a response too. */
async function orNotFound<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof CallFailure && error.kind === "said" && error.code === codes.notFound) return undefined;
    throw error;
  }
}

function judged(
  what: string,
  response: { readonly message: unknown; readonly height: number | undefined } | undefined,
  check: (stated: number | undefined) => Verdict,
): Finding {
  const verdict = check(response?.height);
  if (verdict === "right") return "right";
  const stated = response?.height === undefined ? "" : ` of block ${response.height}`;
  if (verdict === "excused" || (verdict === "stale" && stated !== "")) return "old";
  const text = response === undefined ? "NOT_FOUND" : plainText(response.message);
  return { wrong: `${what}${stated} ${verdict === "stale" ? "is too old" : "is not that of any block"}: ${text}` };
}

function plainText(message: unknown): string {
  return JSON.stringify(message, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value)).slice(
    0,
    120,
  );
}
