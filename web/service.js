// The service's own HTTP API, seen from a page that it serves: addresses are relative, so that a base path is kept.

/** An error answer of the service, or none at all (`status` 0). */
export class ServiceError extends Error {
  /**
   * @param {string} message what the service said
   * @param {number} status HTTP status; 0: the service could not be reached
   * @param {string} reason UPPER_SNAKE_CASE, or empty
   */
  constructor(message, status, reason) {
    super(message);
    this.status = status;
    this.reason = reason;
  }
}

/** Seconds since the newest data, as the last answer said it; undefined: not said. */
export let stalenessSeconds;

/** The absolute URL of a path of the API, with its parameters; undefined ones and empty texts are left out. */
export function apiUrl(path, parameters = {}) {
  const url = new URL(path, document.baseURI);
  url.hash = "";
  for (const [name, value] of Object.entries(parameters)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== "") url.searchParams.append(name, String(each));
    }
  }
  return url;
}

/** An error body's reason, from its google.rpc.ErrorInfo. */
function reasonOf(body) {
  return body.details?.find((detail) => detail.reason !== undefined)?.reason ?? "";
}

/** GETs JSON. Unchanged answers cost a 304. @throws {ServiceError} */
export async function get(path, parameters) {
  let response;
  try {
    response = await fetch(apiUrl(path, parameters), { cache: "no-cache", headers: { accept: "application/json" } });
  } catch {
    throw new ServiceError("the service does not answer", 0, "");
  }
  const staleness = response.headers.get("marketd-staleness");
  stalenessSeconds = staleness === null ? undefined : Number(staleness);
  let body;
  try {
    body = await response.json();
  } catch {
    throw new ServiceError(`the service answered ${response.status} without JSON`, response.status, "");
  }
  if (!response.ok) throw new ServiceError(body.message ?? response.statusText, response.status, reasonOf(body));
  return body;
}

const marketPath = (kind, id) => `api/v2/market/${kind}${encodeURIComponent(id)}`;

export const getMarket = async (id) => (await get(marketPath("", id))).market;
export const getMarketData = async (id) => (await get(`${marketPath("data/", id)}/latest`)).marketData;
export const getDepth = (id, maxDepth) => get(`${marketPath("depth/", id)}/latest`, { maxDepth });
export const listMarketsData = async () => (await get("markets/data")).marketsData;
export const listLedgerEntries = async (query) => (await get("api/v2/ledgerentry/history", query)).ledgerEntries;
export const exportUrl = (partyId, assetId) => apiUrl("api/v2/ledgerentry/export", { partyId, assetId, alt: "media" });
