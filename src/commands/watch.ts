import { once } from "node:events";
import { decimalsOf } from "../../clients/typescript/src/decimals.js";
import { findMarket, namesOf } from "../client/find-market.js";
import { MarketFeed } from "../client/market-feed.js";
import { openServer, serverProblem } from "../client/server.js";
import type { Config } from "../config.js";
import { exitInterrupted, OperatorError } from "../domain/operator-error.js";
import { stopOnSignal } from "../runtime/stop-signal.js";
import { FullScreen } from "../terminal/full-screen.js";
import {
  bookLine,
  Flashes,
  marketScreen,
  marketText,
  type ShownMarket,
  stalenessText,
} from "../terminal/market-screen.js";
import { styleOf } from "../terminal/style.js";

/** Frames a second, at most. */
const frameIntervalMs = 50;

/**
 * Shows a market's order book as it changes: over the whole terminal, or as a line for each change where the output is
 * none. Ends with a signal, the key q, or the reader of its output.
 */
export async function watch(config: Config<"watch">): Promise<void> {
  const server = openServer(config.server);
  const { stop, isInterrupted } = stopOnSignal();
  process.once("SIGHUP", () => stop.abort());
  process.stdout.once("error", () => stop.abort());
  const isOnce = config.once || (config.at !== undefined && config.replay === undefined);
  let isCut = false;
  try {
    const feed = new MarketFeed(server, await findMarket(server, config.market, stop.signal));
    const show = isOnce ? showOnce : process.stdout.isTTY ? showScreen : showLines;
    await show(feed, config, stop);
  } catch (error) {
    if (!stop.signal.aborted) throw serverProblem(error, server);
    // The one book was not printed.
    isCut = isOnce;
  } finally {
    stop.abort();
  }
  if (isCut || isInterrupted()) throw new OperatorError("interrupted", exitInterrupted);
}

function shownMarket({ market, mode, block, book, trades, staleness }: MarketFeed): ShownMarket {
  const name = namesOf(market).join(" · ");
  return { id: market.id, name, mode, places: decimalsOf(market), block, book, trades, staleness };
}

async function showOnce(feed: MarketFeed, { at, maxDepth }: Config<"watch">, stop: AbortController): Promise<void> {
  if (at === undefined) await feed.ask(maxDepth, stop.signal);
  else await feed.askAt(at, stop.signal);
  for (const line of marketText(shownMarket(feed), maxDepth)) process.stdout.write(`${line}\n`);
}

/** The changes of the past or the present. */
function changesOf(
  feed: MarketFeed,
  { at: from, replay: speed }: Config<"watch">,
  signal: AbortSignal,
  onStale = () => {},
) {
  return speed === undefined ? feed.changes(signal, onStale) : feed.replayed({ from, speed }, signal, onStale);
}

async function showLines(feed: MarketFeed, config: Config<"watch">, stop: AbortController): Promise<void> {
  const tellStale = () => {
    if (feed.staleness !== undefined) process.stderr.write(`marketd: ${stalenessText(feed.staleness)}\n`);
  };
  for await (const { block } of changesOf(feed, config, stop.signal, tellStale)) {
    const time = config.replay === undefined || block === undefined ? new Date() : dateOf(block.timestamp);
    const line = `${bookLine(shownMarket(feed), time)}\n`;
    if (!process.stdout.write(line)) await once(process.stdout, "drain", { signal: stop.signal }).catch(() => {});
  }
}

function dateOf(timeNs: bigint): Date {
  return new Date(Number(timeNs / 1_000_000n));
}

async function showScreen(feed: MarketFeed, config: Config<"watch">, stop: AbortController): Promise<void> {
  const { stdout, stdin } = process;
  const style = styleOf(stdout.hasColors());
  const flashes = new Flashes();
  const draw = () => {
    const { rows, columns } = screen;
    screen.draw(marketScreen(shownMarket(feed), flashes, { rows, columns, style }, config.maxDepth));
  };
  const onKey = (key: string) => {
    if (key === "q") stop.abort();
  };
  const screen = new FullScreen(stdout, stdin.isTTY ? stdin : undefined, { onResize: draw, onKey });
  const timer = setInterval(draw, frameIntervalMs);
  // Mode, newest block and trades are those of the present.
  const facts = config.replay === undefined ? [feed.pollFacts(stop.signal), feed.followTrades(stop.signal)] : [];
  try {
    const reading = (async () => {
      for await (const { update } of changesOf(feed, config, stop.signal)) flashes.note(update);
    })();
    await Promise.all([...facts, reading]);
  } finally {
    clearInterval(timer);
    screen.close();
  }
}
