import { openServer } from "../client/server.js";
import { askStatus, type ServerStatus } from "../client/server-status.js";
import type { Config } from "../config.js";
import { grouped } from "../domain/decimal-text.js";
import { duration, instant } from "../domain/instant.js";
import { exitUnavailable, OperatorError } from "../domain/operator-error.js";
import { printable } from "../domain/printable.js";

/** The database is asked many times a second; after this long it counts as away. */
const databaseSilenceMaxSeconds = 3;

/** Prints how a server is. @throws OperatorError unless it is ready */
export async function status({ server, json, timeoutMs }: Config<"status">): Promise<void> {
  const now = await askStatus(openServer(server), timeoutMs);
  process.stdout.write(json ? `${JSON.stringify(now, undefined, 2)}\n` : screenOf(now));
  if (now.ready) return;
  const problem = now.reachable ? "is not ready" : "cannot be reached";
  throw new OperatorError(`${server} ${problem}: ${printable(now.state)}`, exitUnavailable);
}

function screenOf(now: ServerStatus): string {
  const lines = {
    server: now.server,
    state: stateText(now),
    ...(now.reachable && {
      block: blockText(now),
      markets: marketsText(now),
      streams: now.streams === undefined ? "not told" : `${grouped(String(now.streams), ",")} open`,
      history: historyText(now),
      trades: tradesText(now),
      database: databaseText(now),
    }),
  };
  const width = Math.max(...Object.keys(lines).map((name) => name.length));
  return Object.entries(lines)
    .map(([name, text]) => `${name.padEnd(width)}  ${printable(text)}\n`)
    .join("");
}

function stateText({ reachable, state, readyzProblem }: ServerStatus): string {
  if (!reachable) return `cannot be reached: ${state}`;
  return readyzProblem === undefined || readyzProblem === state
    ? state
    : `${state} by /status; /readyz: ${readyzProblem}`;
}

function marketsText({ markets, marketsWithData, staleMarkets }: ServerStatus): string {
  const counts: [count: number | undefined, what: string][] = [
    [markets, "in all"],
    [marketsWithData, "with market data"],
    [staleMarkets, "stale"],
  ];
  const texts = counts.flatMap(([count, what]) =>
    count === undefined ? [] : [`${grouped(String(count), ",")} ${what}`],
  );
  return texts.length === 0 ? "not told" : texts.join(", ");
}

function blockText({ blockHeight, blockTimestamp, blockAgeSeconds }: ServerStatus): string {
  if (blockHeight === undefined) return "none yet";
  const age = blockAgeSeconds === undefined ? "" : `, ${duration(blockAgeSeconds)} old`;
  return `${grouped(blockHeight, ",")}${age} (${instant(blockTimestamp)} UTC)`;
}

function historyText({
  historyBytes,
  historyOldestSeconds: oldest,
  historyNewestSeconds: newest,
}: ServerStatus): string {
  if (historyBytes === undefined) return "not told";
  if (oldest === undefined || newest === undefined) return "not kept";
  return `${megabytes(historyBytes)}, from ${second(oldest)} to ${second(newest)} UTC`;
}

function tradesText({ tradesBytes, tradesOldestSeconds: oldest }: ServerStatus): string {
  if (tradesBytes === undefined) return "not told";
  if (oldest === undefined) return "not kept";
  return `${megabytes(tradesBytes)}, ${oldest === 0 ? "of every block" : `from ${second(oldest)} UTC`}`;
}

function megabytes(bytes: number): string {
  return `about ${grouped(String(Math.ceil(bytes / 1_000_000)), ",")} MB`;
}

/** A time without its fraction. */
function second(seconds: number): string {
  return instant(String(BigInt(Math.round(seconds)) * 1_000_000_000n)).slice(0, 19);
}

function databaseText({ databaseSilenceSeconds: seconds }: ServerStatus): string {
  if (seconds === undefined) return "not told";
  if (seconds < 0) return "never answered";
  return seconds < databaseSilenceMaxSeconds ? "answers" : `silent for ${duration(seconds)}`;
}
