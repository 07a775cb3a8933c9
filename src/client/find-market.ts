import { setTimeout as sleep } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Market } from "../../gen/vega/markets_pb.js";
import { exitUsage, OperatorError } from "../domain/operator-error.js";
import { quoted } from "../domain/printable.js";
import { marketOf, type Server, shortResponseMaxMs } from "./server.js";
import { staleMarketIds } from "./server-status.js";

/** The first books of a stream are complete when nothing has followed them for this long. */
const firstBooksQuietMs = 500;

/** The maximum number of markets whose codes and names are compared. */
const marketsMax = 10_000;

/** Requests for definitions at a time. */
const requestsMax = 16;

/** The maximum number of markets in a message. */
const namedMax = 10;

/**
 * The market with this id; otherwise the only one with this code or name, in upper or lower case; otherwise the only
 * one whose id begins so. Of stale markets without market data, those that `/status` names are found by more than their id.
 * @throws OperatorError if there is none, or several; ConnectError
 */
export async function findMarket(server: Server, name: string): Promise<Market> {
  const exact = await readMarket(server, name);
  if (exact !== undefined) return exact;
  const ids = await listMarketIds(server);
  const markets = await readMarkets(server, ids);
  const called = markets.filter((market) => namesOf(market).some((one) => one.toLowerCase() === name.toLowerCase()));
  const beginning = markets.filter(({ id }) => id.startsWith(name));
  const [found, how] = called.length > 0 ? [called, "are called"] : [beginning, "begin with"];
  const [only] = found;
  if (only !== undefined && found.length === 1) return only;
  if (only !== undefined) {
    const message = `${found.length} markets ${how} ${quoted(name)}; give the id of one: ${listed(found)}`;
    throw new OperatorError(message, exitUsage);
  }
  throw new OperatorError(`${server.url} has no market ${quoted(name)}; it has ${listed(markets)}`);
}

/** Undefined if there is none with this id, or it cannot be an id. */
async function readMarket({ client }: Server, marketId: string): Promise<Market | undefined> {
  try {
    return marketOf(await client.getMarket({ marketId }, { timeoutMs: shortResponseMaxMs }));
  } catch (thrown) {
    const error = ConnectError.from(thrown);
    if (error.code === Code.NotFound || error.code === Code.InvalidArgument) return undefined;
    throw error;
  }
}

/** The markets that have market data or a book, and stale ones, by id. */
async function listMarketIds(server: Server): Promise<string[]> {
  const { client } = server;
  const { marketsData } = await client.listLatestMarketData({}, { timeoutMs: shortResponseMaxMs });
  const ids = new Set(marketsData.map(({ market }) => market));
  const stop = new AbortController();
  const timeout = AbortSignal.timeout(shortResponseMaxMs);
  const signal = AbortSignal.any([stop.signal, timeout]);
  const messages = client.observeMarketsDepthUpdates({}, { signal })[Symbol.asyncIterator]();
  try {
    for (let isFirst = true; ; isFirst = false) {
      const quiet = isFirst ? undefined : sleep(firstBooksQuietMs, undefined, { signal });
      const message = await Promise.race([messages.next(), ...(quiet === undefined ? [] : [quiet])]);
      const updates = message?.done === false ? message.value.update : [];
      const books = updates.filter(({ previousSequenceNumber }) => previousSequenceNumber === 0n);
      for (const { marketId } of books) ids.add(marketId);
      if (books.length === 0 || books.length < updates.length || ids.size > marketsMax) break;
    }
  } catch (thrown) {
    if (!timeout.aborted) throw thrown;
  } finally {
    stop.abort();
    void messages.next().catch(() => {});
  }
  for (const id of await staleMarketIds(server, shortResponseMaxMs)) ids.add(id);
  return [...ids].sort().slice(0, marketsMax);
}

async function readMarkets(server: Server, ids: readonly string[]): Promise<Market[]> {
  const markets: (Market | undefined)[] = [];
  let next = 0;
  const readSome = async () => {
    for (let at = next++; at < ids.length; at = next++) markets[at] = await readMarket(server, ids[at] ?? "");
  };
  await Promise.all(Array.from({ length: requestsMax }, readSome));
  return markets.filter((market) => market !== undefined);
}

/** A market's code and name, as far as it has them. */
export function namesOf({ tradableInstrument }: Market): string[] {
  const { code = "", name = "" } = tradableInstrument?.instrument ?? {};
  return [code, name].filter((text) => text !== "");
}

function listed(markets: readonly Market[]): string {
  if (markets.length === 0) return "none";
  const texts = markets.slice(0, namedMax).map((market) => {
    const names = namesOf(market).map(quoted).join(", ");
    return names === "" ? quoted(market.id) : `${quoted(market.id)} (${names})`;
  });
  const more = markets.length - namedMax;
  return texts.join(", ") + (more > 0 ? ` and ${more} more` : "");
}
