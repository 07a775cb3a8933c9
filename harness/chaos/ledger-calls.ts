import { toJsonString } from "@bufbuild/protobuf";
import { AccountBalanceSchema, AggregatedBalanceSchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { type CandleInterval, candleDigest, candlePeriodsNs } from "./candle-fold.js";
import { digestOf } from "./digest.js";
import type { Fold } from "./fold.js";
import { type BlockRange, entryDigest, isNewest, isNewestBundles, tradeDigest } from "./judge.js";
import { deadlineMs, type Finding, type Readers } from "./reader.js";
import {
  type Caller,
  filterOf,
  judged,
  marketOf,
  methods,
  nodesOf,
  orNotFound,
  partyOf,
  type UnaryCall,
} from "./unary-call.js";

const pageSize = 20;
const pagination = { first: pageSize };

async function bundles({ readers, client, startedAt }: Caller): Promise<Finding> {
  const response = await client.unary(methods.listERC20MultiSigSignerRemovedBundles, { pagination }, deadlineMs);
  const fits = isNewestBundles(pageSize, nodesOf(response.message.bundles));
  return judged("bundles", response, (at) => readers.judge.check(startedAt, at, fits));
}

async function entries({ readers, client, startedAt }: Caller): Promise<Finding> {
  const { judge, random } = readers;
  const party = random.next() < 0.3 ? undefined : partyOf(judge, random.next());
  const filter = party === undefined ? {} : { filter: filterOf(party) };
  const response = await client.unary(methods.listLedgerEntries, { ...filter, pagination }, deadlineMs);
  const digests = nodesOf(response.message.ledgerEntries).map(entryDigest);
  const fits = isNewest((fold) => fold.rows, party, pageSize, digests);
  return judged(`entries of ${party ?? "all"}`, response, (at) => judge.check(startedAt, at, fits));
}

/** A range of time between two blocks, or none. */
function someRange({ judge, random }: Readers) {
  const timeOf = (height: number): bigint => judge.chain.fold.block(height)?.timeNs ?? 1n;
  const heights = [1 + random.below(judge.committed + 1), 1 + random.below(judge.committed + 1)];
  const [startTimestamp, endTimestamp] = [timeOf(Math.min(...heights)), timeOf(Math.max(...heights))];
  if (random.next() < 0.5 || startTimestamp >= endTimestamp) return { range: {}, rangeOf: undefined };
  const rangeOf: BlockRange = (fold) => [fold.heightAt(startTimestamp - 1n), fold.heightAt(endTimestamp - 1n)];
  return { range: { dateRange: { startTimestamp, endTimestamp } }, rangeOf };
}

async function trades({ readers, client, startedAt }: Caller): Promise<Finding> {
  const { judge, random } = readers;
  const marketId = random.next() < 0.5 ? marketOf(readers) : undefined;
  const partyId = marketId === undefined && random.next() < 0.6 ? partyOf(judge, random.next()) : undefined;
  const selection = {
    marketIds: marketId === undefined ? [] : [marketId],
    partyIds: partyId === undefined ? [] : [partyId],
  };
  const { range, rangeOf } = someRange(readers);
  const response = await client.unary(methods.listTrades, { ...selection, ...range, pagination }, deadlineMs);
  const digests = nodesOf(response.message.trades).map(tradeDigest);
  const fits = isNewest((fold) => fold.trades, marketId ?? partyId, pageSize, digests, rangeOf);
  return judged(`trades of ${marketId ?? partyId ?? "all"}`, response, (at) => judge.check(startedAt, at, fits));
}

/** A series of candles of the chain; often that of blocks, in which most candles end. */
export function candlesOf(readers: Readers): { readonly marketId: string; readonly interval: CandleInterval } {
  const intervals = Object.keys(candlePeriodsNs) as CandleInterval[];
  const interval = readers.random.next() < 0.4 ? "block" : readers.random.pick(intervals);
  return { marketId: marketOf(readers), interval };
}

export function candleIdOf(marketId: string, interval: CandleInterval): string {
  return `trades_candle_${interval}_${marketId}`;
}

async function candles({ readers, client, startedAt }: Caller): Promise<Finding> {
  const { marketId, interval } = candlesOf(readers);
  const candleId = candleIdOf(marketId, interval);
  const response = await orNotFound(client.unary(methods.listCandleData, { candleId, pagination }, deadlineMs));
  const digests = response && nodesOf(response.message.candles).map(candleDigest);
  const fits = (fold: Fold, height: number): boolean => {
    const isKnown = fold.markets.get(marketId)?.definition.at(height) !== undefined;
    if (digests === undefined || !isKnown) return digests === undefined && !isKnown;
    const expected = fold.candles(marketId, interval).newest(height, pageSize);
    return expected.length === digests.length && expected.every((digest, index) => digest === digests[index]);
  };
  return judged(`candles ${candleId}`, response, (at) => readers.judge.check(startedAt, at, fits));
}

async function accounts({ readers, client, startedAt }: Caller): Promise<Finding> {
  const { judge, random } = readers;
  const party = partyOf(judge, random.next());
  const block = random.next() < 0.5 ? undefined : judge.chain.fold.block(1 + random.below(judge.committed + 1));
  const asOf = block === undefined ? undefined : block.timeNs - BigInt(random.below(2));
  const request = {
    filter: { partyIds: [party] },
    pagination: { newestFirst: false },
    ...(asOf === undefined ? {} : { asOf }),
  };
  const response = await client.unary(methods.listAccounts, request, deadlineMs);
  const digests = nodesOf(response.message.accounts).map((node) => digestOf(toJsonString(AccountBalanceSchema, node)));
  const fits = (fold: Fold, height: number): boolean => {
    const until = asOf === undefined ? height : fold.heightAt(asOf, height);
    const expected = fold.balances.accounts(party, height, until);
    return expected.length === digests.length && expected.every((digest, index) => digest === digests[index]);
  };
  const what = `accounts of ${party}${asOf === undefined ? "" : ` as of ${asOf}`}`;
  return judged(what, response, (at) => judge.check(startedAt, at, fits));
}

async function balanceChanges({ readers, client, startedAt }: Caller): Promise<Finding> {
  const { judge, random } = readers;
  const party = random.next() < 0.2 ? undefined : partyOf(judge, random.next());
  const filter = party === undefined ? {} : { filter: { partyIds: [party] } };
  const { range, rangeOf } = someRange(readers);
  const response = await client.unary(methods.listBalanceChanges, { ...filter, ...range, pagination }, deadlineMs);
  const digests = nodesOf(response.message.balances).map((node) => {
    return digestOf(toJsonString(AggregatedBalanceSchema, node));
  });
  const fits = isNewest((fold) => fold.balances.changes, party, pageSize, digests, rangeOf);
  return judged(`balance changes of ${party ?? "all"}`, response, (at) => judge.check(startedAt, at, fits));
}

/** What is read from the database. */
export const ledgerCalls: readonly UnaryCall[] = [
  bundles,
  entries,
  entries,
  trades,
  trades,
  candles,
  accounts,
  balanceChanges,
];
