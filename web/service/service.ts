// The service's HTTP API, seen from a page that it serves: URLs are relative, so that a base path is kept.
import type {
  Account,
  Asset,
  BalanceChange,
  BlockPlace,
  Candle,
  CandleInterval,
  ChangesResponse,
  Connection,
  Edge,
  LedgerEntriesResponse,
  Market,
  MarketData,
  PastDepthResponse,
  SignerBundlesResponse,
  StatusResponse,
  Trade,
} from "./messages.js";

/** An error response of the service, or no response at all. */
export class ServiceError extends Error {
  override readonly name = "ServiceError";

  /**
   * @param status HTTP status; 0: the service could not be reached
   * @param reason UPPER_SNAKE_CASE, or empty
   */
  constructor(
    message: string,
    readonly status: number,
    readonly reason: string,
  ) {
    super(message);
  }

  /** Whether the same request can succeed later. */
  get isPassing(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

/** Parameters of a URL; empty values are left out. */
export type Query = Iterable<readonly [string, string]>;

/** The absolute URL of a path of the API. */
export function apiUrl(path: string, query: Query = []): URL {
  const url = new URL(path, document.baseURI);
  url.hash = "";
  for (const [name, value] of query) if (value !== "") url.searchParams.append(name, value);
  return url;
}

interface ErrorBody {
  readonly message?: string;
  readonly details?: readonly { readonly reason?: string }[];
}

/** The error that a response holds. */
export async function errorOf(response: Response): Promise<ServiceError> {
  const body: ErrorBody = await response.json().catch(() => ({}));
  const reason = body.details?.find((detail) => detail.reason !== undefined)?.reason ?? "";
  return new ServiceError(body.message ?? `the service answered ${response.status}`, response.status, reason);
}

/** Fetches from the service. @throws {ServiceError} when it does not answer */
export async function request(url: URL, init: RequestInit = {}): Promise<Response> {
  try {
    return await fetch(url, { cache: "no-cache", ...init });
  } catch (thrown) {
    if (init.signal?.aborted === true) throw thrown;
    throw new ServiceError("the service does not answer", 0, "");
  }
}

/** GETs JSON; an unchanged response costs a 304. @throws {ServiceError} */
async function getResponse(path: string, query?: Query, signal?: AbortSignal): Promise<Response> {
  const headers = { accept: "application/json" };
  const response = await request(apiUrl(path, query), signal === undefined ? { headers } : { headers, signal });
  if (!response.ok) throw await errorOf(response);
  return response;
}

async function get<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
  return (await getResponse(path, query, signal)).json();
}

const segment = encodeURIComponent;

export const paths = {
  market: (id: string) => `api/v2/market/${segment(id)}`,
  depth: (id: string) => `api/v2/market/depth/${segment(id)}/latest`,
  marketData: (id: string) => `api/v2/market/data/${segment(id)}/latest`,
  marketsData: "markets/data",
  assets: "api/v2/assets",
  status: "status",
  trades: "api/v2/trades",
  tradesStream: "api/v2/stream/trades",
  candleIntervals: "api/v2/candle/intervals",
  candles: "api/v2/candle",
  candleStream: "api/v2/stream/candle/data",
  depthUpdates: "api/v2/stream/markets/depth/updates",
  depthReplay: "api/v2/stream/markets/depth/replay",
  depthAt: (id: string) => `api/v2/market/depth/${segment(id)}/at`,
  depthChanges: (id: string) => `api/v2/market/depth/${segment(id)}/changes`,
  accounts: "api/v2/accounts",
  balanceChanges: "api/v2/balance/changes",
  ledger: "api/v2/ledgerentry/history",
  ledgerExport: "api/v2/ledgerentry/export",
  signerBundles: "api/v2/erc20/multisigcontrol/signer/removed/bundles",
} as const;

/** A market's definition, and the height of the newest block that the service had applied when it answered. */
export interface MarketResponse {
  readonly market: Market;
  readonly blockHeight: bigint;
}

export async function getMarket(id: string): Promise<MarketResponse> {
  const response = await getResponse(paths.market(id));
  const { market } = (await response.json()) as { market: Market };
  return { market, blockHeight: BigInt(response.headers.get("x-block-height") ?? 0) };
}

export const getStatus = (signal: AbortSignal) => get<StatusResponse>(paths.status, [], signal);

/** Market data, and the newest block that the service had applied when it answered. */
export interface MarketDataResponse {
  readonly data: MarketData;
  readonly newestBlock: string;
  /** Whether the data is of that very block, and not of an earlier one. */
  readonly isOfNewestBlock: boolean;
}

export async function getMarketData(id: string): Promise<MarketDataResponse> {
  const response = await getResponse(paths.marketData(id));
  const { marketData: data } = (await response.json()) as { marketData: MarketData };
  const newestBlock = response.headers.get("x-block-height") ?? "";
  return { data, newestBlock, isOfNewestBlock: response.headers.get("x-block-timestamp") === data.timestamp };
}

export const listTrades = async (query: Query) =>
  (await get<{ trades: Connection<Trade> }>(paths.trades, query)).trades;
export const listCandleIntervals = async (marketId: string) =>
  (await get<{ intervalToCandleId: readonly CandleInterval[] }>(paths.candleIntervals, [["marketId", marketId]]))
    .intervalToCandleId;
export const listCandles = async (query: Query) =>
  (await get<{ candles: Connection<Candle> }>(paths.candles, query)).candles;
/** A market's book as of a time in nanoseconds. */
export const getDepthAt = (id: string, timestamp: string) =>
  get<PastDepthResponse>(paths.depthAt(id), [["timestamp", timestamp]]);
/** The first block that changed a market's book of those that a query selects; undefined: there is none. */
export const findChange = async (id: string, query: Query): Promise<BlockPlace | undefined> =>
  (await get<ChangesResponse>(paths.depthChanges(id), [...query, ["pagination.first", "1"]])).changes.edges[0]?.block;
export const listMarketsData = async () => (await get<{ marketsData: MarketData[] }>(paths.marketsData)).marketsData;
export const listLedgerEntries = async (query: Query, signal?: AbortSignal) =>
  (await get<LedgerEntriesResponse>(paths.ledger, query, signal)).ledgerEntries;
export const listSignerBundles = async (query: Query) =>
  (await get<SignerBundlesResponse>(paths.signerBundles, query)).bundles;
export const listAssets = async (query: Query) =>
  (await get<{ assets: Connection<Asset> }>(paths.assets, query)).assets;
/** Accounts, and the time of the newest block when they were read, in nanoseconds; 0: there is no block. */
export const listAccounts = async (query: Query, signal?: AbortSignal) => {
  const response = await getResponse(paths.accounts, query, signal);
  const { accounts } = (await response.json()) as { accounts: Connection<Account> };
  return { ...accounts, newestNs: BigInt(response.headers.get("x-block-timestamp") ?? 0) };
};
export const listBalanceChanges = async (query: Query, signal?: AbortSignal) =>
  (await get<{ balances: Connection<BalanceChange> }>(paths.balanceChanges, query, signal)).balances;

/** A list is read in at most so many requests: pages of rare rows may be short. */
const pagesMax = 100;

/** The first rows of a list, and whether there are no others. */
export interface FirstRows<T> {
  readonly edges: readonly Edge<T>[];
  readonly isWhole: boolean;
}

type List<T> = (query: Query, signal?: AbortSignal) => Promise<Connection<T>>;

/** The pages of a list until its end, or until there are `rowsMax` rows or more. @throws {ServiceError} */
export async function* pagesOf<T>(
  list: List<T>,
  query: Query,
  rowsMax: number,
  signal?: AbortSignal,
): AsyncGenerator<Connection<T>, void> {
  let after = "";
  for (let pages = 0, rows = 0; pages < pagesMax && rows < rowsMax; pages++) {
    const page = await list([...query, ["pagination.first", String(rowsMax)], ["pagination.after", after]], signal);
    yield page;
    if (!page.pageInfo.hasNextPage) return;
    rows += page.edges.length;
    after = page.pageInfo.endCursor;
  }
}

/** Reads the rows of {@link pagesOf}. @throws {ServiceError} */
export async function readPages<T>(
  list: List<T>,
  query: Query,
  rowsMax: number,
  signal?: AbortSignal,
): Promise<FirstRows<T>> {
  const edges: Edge<T>[] = [];
  let isWhole = false;
  for await (const page of pagesOf(list, query, rowsMax, signal)) {
    edges.push(...page.edges);
    isWhole = !page.pageInfo.hasNextPage;
  }
  return { edges, isWhole };
}
