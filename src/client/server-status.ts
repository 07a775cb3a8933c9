import type { Server } from "./server.js";

/** The status of a server. Undefined values are not published, or could not be read. */
export interface ServerStatus {
  readonly server: string;
  readonly reachable: boolean;
  readonly ready: boolean;
  /** The state of `/readyz`: `ready`, or why not, or why it could not be requested. */
  readonly state: string;
  /** Decimal. */
  readonly blockHeight: string | undefined;
  /** Unix nanoseconds, decimal. */
  readonly blockTimestamp: string | undefined;
  /** By the server's own clock. */
  readonly blockAgeSeconds: number | undefined;
  /** Markets that have market data. */
  readonly markets: number | undefined;
  /** Open depth streams of all clients; from the metrics, which may not be public. */
  readonly streams: number | undefined;
  /** Seconds since the database last replied, -1 if it never did; from the metrics. */
  readonly databaseSilenceSeconds: number | undefined;
}

/** Requests the status of a server. Never rejects if the server is unreachable. */
export async function askStatus(server: Server, timeoutMs: number): Promise<ServerStatus> {
  // Health and metrics are at the root, regardless of the base path.
  const get = (path: string) => fetch(new URL(path, server.url), { signal: AbortSignal.timeout(timeoutMs) });
  let ready: Response;
  let state: string;
  try {
    ready = await get("/readyz");
    state = stateOf(await ready.text()) ?? `${ready.status} is not a response of marketd`;
  } catch (error) {
    return { ...unknown, server: server.url, state: whyNot(error) };
  }
  const header = (name: string) => ready.headers.get(name) ?? undefined;
  const [markets, metrics] = await Promise.all([countMarkets(server, timeoutMs), readMetrics(() => get("/metrics"))]);
  return {
    server: server.url,
    reachable: true,
    ready: ready.ok && state === "ready",
    state,
    blockHeight: header("x-block-height"),
    blockTimestamp: header("x-block-timestamp"),
    blockAgeSeconds: numberOf(header("marketd-staleness")),
    markets,
    streams: numberOf(metrics("marketd_depth_stream_subscribers")),
    databaseSilenceSeconds: numberOf(metrics("marketd_database_silence_seconds")),
  };
}

const unknown = {
  reachable: false,
  ready: false,
  blockHeight: undefined,
  blockTimestamp: undefined,
  blockAgeSeconds: undefined,
  markets: undefined,
  streams: undefined,
  databaseSilenceSeconds: undefined,
};

/** The state in a response of `/readyz`; undefined if it is not one. */
function stateOf(text: string): string | undefined {
  try {
    const { status }: { status?: unknown } = JSON.parse(text);
    return typeof status === "string" ? status : undefined;
  } catch {
    return undefined;
  }
}

/** Why `fetch` failed; its own message only says that it did. */
function whyNot(error: unknown): string {
  const { cause } = error as Error;
  return cause instanceof Error
    ? cause.message || String((cause as NodeJS.ErrnoException).code)
    : (error as Error).message;
}

async function countMarkets({ client }: Server, timeoutMs: number): Promise<number | undefined> {
  try {
    return (await client.listLatestMarketData({}, { timeoutMs })).marketsData.length;
  } catch {
    return undefined;
  }
}

/** The value of a metric without labels, from Prometheus text. */
async function readMetrics(get: () => Promise<Response>): Promise<(name: string) => string | undefined> {
  const text = await get()
    .then((response) => (response.ok ? response.text() : ""))
    .catch(() => "");
  return (name) => new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1];
}

function numberOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}
