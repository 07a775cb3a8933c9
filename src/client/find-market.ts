import { Code, ConnectError } from "@connectrpc/connect";
import { nodes } from "../../clients/typescript/src/pages.js";
import type { Market } from "../../gen/vega/markets_pb.js";
import { exitUsage, OperatorError } from "../domain/operator-error.js";
import { quoted } from "../domain/printable.js";
import { marketOf, type Server, shortResponseMaxMs } from "./server.js";

/** The maximum number of markets whose codes and names are compared. */
const marketsMax = 10_000;

/** The maximum number of markets in a message. */
const namedMax = 10;

/**
 * The market with this id; otherwise the only one with this code or name, in upper or lower case; otherwise the only
 * one whose id begins so.
 * @throws OperatorError if there is none, or several; ConnectError
 */
export async function findMarket(server: Server, name: string, signal: AbortSignal): Promise<Market> {
  const exact = await readMarket(server, name, signal);
  if (exact !== undefined) return exact;
  const markets = await listMarkets(server, signal);
  const called = markets.filter((market) => namesOf(market).some((one) => one.toLowerCase() === name.toLowerCase()));
  const beginning = markets.filter(({ id }) => id.startsWith(name));
  const [found, how] = called.length > 0 ? [called, "are called"] : [beginning, "begin with"];
  const [only] = found;
  if (only !== undefined && found.length === 1) return marketOf({ market: only });
  if (only !== undefined) {
    const message = `${found.length} markets ${how} ${quoted(name)}; give the id of one: ${listed(found)}`;
    throw new OperatorError(message, exitUsage);
  }
  throw new OperatorError(`${server.url} has no market ${quoted(name)}; it has ${listed(markets)}`);
}

/** Undefined if there is none with this id, or it cannot be an id. */
async function readMarket({ client }: Server, marketId: string, signal: AbortSignal): Promise<Market | undefined> {
  try {
    return marketOf(await client.getMarket({ marketId }, { timeoutMs: shortResponseMaxMs, signal }));
  } catch (thrown) {
    const error = ConnectError.from(thrown);
    if (error.code === Code.NotFound || error.code === Code.InvalidArgument) return undefined;
    throw error;
  }
}

/** The first markets that the network announced, by id. */
async function listMarkets({ client }: Server, signal: AbortSignal): Promise<Market[]> {
  const markets: Market[] = [];
  const all = nodes(async (after) => {
    return (await client.listMarkets({ pagination: after }, { timeoutMs: shortResponseMaxMs, signal })).markets;
  });
  for await (const market of all) if (markets.push(market) >= marketsMax) break;
  return markets;
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
