import { once } from "node:events";
import { decimalsOf } from "../../clients/typescript/src/decimals.js";
import { findMarket, namesOf } from "../client/find-market.js";
import { MarketFeed } from "../client/market-feed.js";
import { openServer, serverProblem } from "../client/server.js";
import type { Config } from "../config.js";
import { exitInterrupted, OperatorError } from "../domain/operator-error.js";
import { untilStopped } from "../runtime/stop-signal.js";
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
  const stop = new AbortController();
  let interrupted = false;
  void untilStopped().then((signal) => {
    interrupted = signal === "SIGINT";
    stop.abort();
  });
  process.once("SIGHUP", () => stop.abort());
  process.stdout.once("error", () => stop.abort());
  try {
    const feed = new MarketFeed(server, await findMarket(server, config.market));
    const show = config.once ? showOnce : process.stdout.isTTY ? showScreen : showLines;
    await show(feed, config.maxDepth, stop);
  } catch (error) {
    throw serverProblem(error, server);
  } finally {
    stop.abort();
  }
  if (interrupted) throw new OperatorError("interrupted", exitInterrupted);
}

function shownMarket({ market, mode, block, book, staleness }: MarketFeed): ShownMarket {
  const name = namesOf(market).join(" · ");
  return { id: market.id, name, mode, places: decimalsOf(market), block, book, staleness };
}

async function showOnce(feed: MarketFeed, maxDepth: number, stop: AbortController): Promise<void> {
  await feed.ask(maxDepth, stop.signal);
  for (const line of marketText(shownMarket(feed), maxDepth)) process.stdout.write(`${line}\n`);
}

async function showLines(feed: MarketFeed, _: number, stop: AbortController): Promise<void> {
  const tellStale = () => {
    if (feed.staleness !== undefined) process.stderr.write(`marketd: ${stalenessText(feed.staleness)}\n`);
  };
  for await (const _ of feed.changes(stop.signal, tellStale)) {
    const line = `${bookLine(shownMarket(feed))}\n`;
    if (!process.stdout.write(line)) await once(process.stdout, "drain", { signal: stop.signal }).catch(() => {});
  }
}

async function showScreen(feed: MarketFeed, maxDepth: number, stop: AbortController): Promise<void> {
  const { stdout, stdin } = process;
  const style = styleOf(stdout.hasColors());
  const flashes = new Flashes();
  const draw = () => {
    const { rows, columns } = screen;
    screen.draw(marketScreen(shownMarket(feed), flashes, { rows, columns, style }, maxDepth));
  };
  const onKey = (key: string) => {
    if (key === "q") stop.abort();
  };
  const screen = new FullScreen(stdout, stdin.isTTY ? stdin : undefined, { onResize: draw, onKey });
  const timer = setInterval(draw, frameIntervalMs);
  const facts = feed.pollFacts(stop.signal);
  try {
    const reading = (async () => {
      for await (const { update } of feed.changes(stop.signal)) flashes.note(update);
    })();
    await Promise.all([facts, reading]);
  } finally {
    clearInterval(timer);
    screen.close();
  }
}
