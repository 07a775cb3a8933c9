import { Code, ConnectError } from "@connectrpc/connect";
import { createMarketdClient, type MarketdClient } from "../../clients/typescript/src/client.js";
import { isOfOtherChain } from "../../clients/typescript/src/retry.js";
import { trades } from "../../clients/typescript/src/trade-reader.js";
import { CallFailure } from "./call-failure.js";
import { tradeDigest } from "./judge.js";
import { type Finding, type Readers, repeat } from "./reader.js";
import type { ClientState } from "./scoreboard.js";
import { marketOf } from "./unary-call.js";

const pauseMs = 100;
/** A reader goes on over any number of connections for so long. */
const readMs = [1_500, 10_000] as const;
/** A stream says something every second; one that is silent for so long is dead. */
const silenceMaxMs = 3_000;
/** A reader that would wait for longer before it connects again is ended, and another one begins. */
const waitMaxMs = 1_000;
/** A reader that never lost its connection has what was committed so long before its end. */
const listMaxMs = 1_000;
/** How often a reader is asked whether it has all that was published. */
const checkMs = 150;

/** Readers that list trades and follow them by the client library, which opens their connections again. */
export function startLibraryReaders(readers: Readers): Promise<void>[] {
  const client = createMarketdClient(`http://127.0.0.1:${readers.port}`);
  return ["library's trades", "library's trades, 2"].map((name) =>
    repeat(readers, name, "replay", pauseMs, (startedAt, state) => readTrades(readers, client, startedAt, state)),
  );
}

/** Each trade of a market from a time on must come once, in order, whatever breaks meanwhile. */
async function readTrades(
  { judge, random, signal, scoreboard }: Readers,
  client: MarketdClient,
  startedAt: number,
  state: ClientState,
): Promise<Finding> {
  const { chain, previousChain } = judge;
  const { fold } = chain;
  const marketId = marketOf({ judge, random });
  // There is a trade to read, if there is one in the market, so that only a reader that gets it is right.
  const known = fold.trades.count(marketId, judge.committed);
  const isFromStart = known === 0 || random.next() < 0.2;
  const from = isFromStart ? undefined : fold.trades.row(marketId, random.below(known))?.timeNs;
  let next = from === undefined ? 0 : fold.trades.count(marketId, fold.heightAt(from - 1n));
  // The first ones may come from the chain before, and the next ones from this one.
  const isOfOneChain = () => previousChain === undefined && judge.chain === chain;
  const left = new AbortController();
  const endsAfter = AbortSignal.timeout(Math.round(random.between(...readMs)));
  let [breaks, read] = [0, 0];
  const onDisconnect = (_: ConnectError, waitMs: number) => {
    breaks++;
    if (waitMs > waitMaxMs) left.abort();
  };
  const options = { signal: AbortSignal.any([signal, left.signal, endsAfter]), silenceMaxMs, onDisconnect };
  const isFresh = () =>
    (read > 0 || known === 0) && next >= fold.trades.count(marketId, judge.shownBy(performance.now()));
  const freshness = setInterval(() => isFresh() && scoreboard.step(state), checkMs);
  try {
    for await (const trade of trades(client, marketId, from, options)) {
      if (fold.trades.digest(marketId, next) !== tradeDigest(trade)) {
        const wrong = `${trade.id} of ${trade.timestamp}, where trade ${next} of ${marketId} comes next, after ${breaks} breaks`;
        return isOfOneChain() ? { wrong } : undefined;
      }
      next++;
      read++;
      scoreboard.step(state);
    }
  } catch (thrown) {
    const error = ConnectError.from(thrown);
    const isUnknown =
      error.code === Code.NotFound && fold.markets.get(marketId)?.definition.at(judge.floor(startedAt)) === undefined;
    if (isUnknown || (isOfOtherChain(error) && !isOfOneChain())) return undefined;
    return isOfOneChain() ? { wrong: `trades of ${marketId} end: ${error.message}` } : undefined;
  } finally {
    clearInterval(freshness);
  }
  const least = fold.trades.count(marketId, judge.floor(performance.now() - listMaxMs));
  if (breaks === 0 && isOfOneChain() && next < least)
    throw new CallFailure("late", `at trade ${next}, ${least} are there`);
  return "right";
}
