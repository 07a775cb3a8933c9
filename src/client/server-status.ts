import { Code, ConnectError } from "@connectrpc/connect";
import { boundedFetch as boundedFetchOf } from "../../clients/typescript/src/bounded-fetch.js";
import { blockHeadOf } from "../domain/block-headers.js";
import { printable } from "../domain/printable.js";
import { type Server, serverProblem } from "./server.js";

/** The largest response about a server's state that is read, in bytes. Metrics of 256 workers have less than 1 MiB. */
const stateMaxBytes = 16 * 1024 * 1024;

const boundedFetch = boundedFetchOf(stateMaxBytes);

/** The status of a server. Undefined values are not published, or could not be read. */
export interface ServerStatus {
  readonly server: string;
  readonly reachable: boolean;
  readonly ready: boolean;
  /** The state of `/readyz`: `ready`, or why not, or why it could not be requested. */
  readonly state: string;
  /** What a proxy answered in place of `/readyz`. The state is that of `/status` then, if that is there. */
  readonly readyzProblem?: string | undefined;
  /** Decimal. */
  readonly blockHeight?: string | undefined;
  /** Unix nanoseconds, decimal. */
  readonly blockTimestamp?: string | undefined;
  /** By the server's own clock. */
  readonly blockAgeSeconds?: number | undefined;
  /** Markets that have market data. */
  readonly marketsWithData?: number | undefined;
  /** All markets, those of venues without market data included. */
  readonly markets?: number | undefined;
  /** Markets of venues whose books are wrong until the next snapshot. */
  readonly staleMarkets?: number | undefined;
  /** Open depth streams of all clients; from the metrics, which may not be public. */
  readonly streams?: number | undefined;
  /** The size of the books' past in bytes, and from when on and up to when it is kept, in Unix seconds; from the metrics. */
  readonly historyBytes?: number | undefined;
  readonly historyOldestSeconds?: number | undefined;
  readonly historyNewestSeconds?: number | undefined;
  /** The size of trades and candles in bytes, and from when on trades are kept, in Unix seconds; 0: of every block. */
  readonly tradesBytes?: number | undefined;
  readonly tradesOldestSeconds?: number | undefined;
  /** Seconds since the database last replied; -1 if it never did, which only the metrics tell. */
  readonly databaseSilenceSeconds?: number | undefined;
}

/**
 * Requests the status of a server. Never rejects if the server is unreachable.
 * @throws OperatorError if there is a server, and nothing of marketd under the path of its URL
 */
export async function askStatus(server: Server, timeoutMs: number): Promise<ServerStatus> {
  // Health and metrics are at the root, regardless of the base path.
  const get = (path: string) => boundedFetch(new URL(path, server.url), { signal: AbortSignal.timeout(timeoutMs) });
  let ready: Response;
  let readyState: string | undefined;
  try {
    ready = await get("/readyz");
    readyState = stateOf(await ready.text());
  } catch (error) {
    return { server: server.url, reachable: false, ready: false, state: whyNot(error) };
  }
  const [withData, told, metrics] = await Promise.all([
    countMarkets(server, timeoutMs),
    readStatus(server, timeoutMs),
    readMetrics(() => get("/metrics")),
  ]);
  // Readiness, at the root, tells nothing of the base path.
  const isElsewhere =
    told.state === undefined && withData instanceof ConnectError && withData.code === Code.Unimplemented;
  if (isElsewhere) throw serverProblem(withData, server);
  const readyzProblem = readyState === undefined ? `${ready.status} is not a response of marketd` : undefined;
  const state = readyState ?? told.state ?? readyzProblem ?? "";
  const { headers } = readyState === undefined ? told : ready;
  const block = blockHeadOf(headers.get("x-block-height"), headers.get("x-block-timestamp"));
  return {
    server: server.url,
    reachable: true,
    ready: state === "ready" && (ready.ok || readyzProblem !== undefined),
    state,
    readyzProblem,
    blockHeight: block && String(block.height),
    blockTimestamp: block && String(block.timeNs),
    blockAgeSeconds: numberOf(headers.get("marketd-staleness") ?? undefined),
    marketsWithData: typeof withData === "number" ? withData : undefined,
    markets: told.count("markets"),
    staleMarkets: told.count("staleMarkets") ?? numberOf(metrics("marketd_markets_stale")),
    streams: numberOf(metrics("marketd_depth_stream_subscribers")),
    historyBytes: numberOf(metrics("marketd_history_bytes")),
    historyOldestSeconds: numberOf(metrics("marketd_history_oldest_timestamp_seconds")),
    historyNewestSeconds: numberOf(metrics("marketd_history_newest_timestamp_seconds")),
    tradesBytes: numberOf(metrics("marketd_trades_bytes")),
    tradesOldestSeconds: numberOf(metrics("marketd_trades_oldest_timestamp_seconds")),
    databaseSilenceSeconds: numberOf(metrics("marketd_database_silence_seconds")) ?? told.databaseSilenceSeconds,
  };
}

/** The maximum number of characters of a state that are shown. */
const stateMax = 200;

/** The state in a response of `/readyz` or `/status`; undefined if it is not one. */
function stateOf(text: string): string | undefined {
  try {
    const { status }: { status?: unknown } = JSON.parse(text);
    return typeof status === "string" ? printable(status.slice(0, stateMax)) : undefined;
  } catch {
    return undefined;
  }
}

/** Why `fetch` failed; its own message only says that it did. */
function whyNot(error: unknown): string {
  const { cause } = error as Error;
  const reason = cause instanceof Error ? cause.message || String((cause as NodeJS.ErrnoException).code) : "";
  return printable(reason || (error as Error).message);
}

/** The number of markets that have market data, or why it is not known. */
async function countMarkets({ client }: Server, timeoutMs: number): Promise<number | ConnectError> {
  try {
    return (await client.listLatestMarketData({}, { timeoutMs })).marketsData.length;
  } catch (thrown) {
    return ConnectError.from(thrown);
  }
}

interface OwnStatus {
  readonly state: string | undefined;
  readonly headers: Headers;
  readonly databaseSilenceSeconds: number | undefined;
  readonly count: (name: string) => number | undefined;
}

/** What `/status` behind the base path tells, which not every server has. */
async function readStatus({ url }: Server, timeoutMs: number): Promise<OwnStatus> {
  const signal = AbortSignal.timeout(timeoutMs);
  const response = await boundedFetch(`${url}/status`, { signal }).catch(() => undefined);
  const text = response?.ok ? await response.text().catch(() => "") : "";
  const state = stateOf(text);
  const values = new Map(state === undefined ? [] : Object.entries(JSON.parse(text)));
  const count = (name: string) => {
    const value = values.get(name);
    return Number.isSafeInteger(value) ? Number(value) : undefined;
  };
  const databaseSilenceSeconds = numberOf(String(values.get("databaseSilenceSeconds")));
  const headers = response?.headers ?? new Headers();
  return { state, headers, databaseSilenceSeconds, count };
}

/** The value of a metric without labels, from Prometheus text. */
async function readMetrics(get: () => Promise<Response>): Promise<(name: string) => string | undefined> {
  const text = await get()
    .then((response) => (response.ok ? response.text() : ""))
    .catch(() => "");
  return (name) => new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1];
}

function numberOf(text: string | undefined): number | undefined {
  const number = Number(text);
  return Number.isFinite(number) ? number : undefined;
}
