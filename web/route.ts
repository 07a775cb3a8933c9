import { isoInstant } from "../src/domain/instant.js";
import { thrownText } from "../src/domain/thrown-text.js";
import { linkedTime } from "./format/time-text.js";
import { Observable } from "./hooks/observable.js";

/** Views whose parameters are named as the API names them. */
const queryViews = ["account", "ledger", "signers"] as const;
export type QueryView = (typeof queryViews)[number];

/** Where a page of trades begins or ends, as the API names it. */
const tradesPages = ["pagination.after", "pagination.before"] as const;
export type TradesPage = readonly [name: (typeof tradesPages)[number], cursor: string];

/** A market, and what of it is shown. */
export interface MarketRoute {
  readonly view: "market";
  readonly marketId: string;
  /** The moment that is shown, in Unix nanoseconds; undefined: now. */
  readonly at: string | undefined;
  /** Why the moment that the URL names cannot be shown. */
  readonly unreadAt?: string;
  /** The interval of candles, as the service names it; "": none was chosen. */
  readonly interval: string;
  /** The page of trades; undefined: the newest. */
  readonly trades: TradesPage | undefined;
}

/** What the page shows, as its URL says. */
export type Route =
  | { readonly view: "markets"; readonly find: string }
  | { readonly view: "nothing" }
  | MarketRoute
  | { readonly view: QueryView; readonly query: URLSearchParams };

/** The route that a URL's fragment names. */
export function parseRoute(fragment: string): Route {
  const [path = "", query = ""] = fragment.replace(/^#/, "").split("?", 2);
  const [, view, argument = ""] = path.split("/");
  if (view === "market" && argument !== "") {
    const given = new URLSearchParams(query);
    const pages = tradesPages.map((name) => [name, given.get(name) ?? ""] as const);
    const trades = pages.find(([, cursor]) => cursor !== "");
    return { view, marketId: decode(argument), ...momentIn(given), interval: given.get("interval") ?? "", trades };
  }
  const queryView = queryViews.find((each) => each === view);
  if (queryView !== undefined) return { view: queryView, query: new URLSearchParams(query) };
  if (path !== "" && path !== "/") return { view: "nothing" };
  return { view: "markets", find: new URLSearchParams(query).get("find") ?? "" };
}

function momentIn(given: URLSearchParams): Pick<MarketRoute, "at" | "unreadAt"> {
  const moment = given.get("at");
  try {
    return { at: moment ? linkedTime(moment) : undefined };
  } catch (thrown) {
    return { at: undefined, unreadAt: thrownText(thrown) };
  }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A link to a market now. */
export const marketHref = (marketId: string): string => `#/market/${encodeURIComponent(marketId)}`;

/** A link to the overview; `find` leaves some of its markets. */
export const marketsHref = (find: string): string => (find === "" ? "#/" : `#/?${new URLSearchParams({ find })}`);

/** A link to a view with parameters; empty values are left out. */
export function queryHref(view: QueryView, query: URLSearchParams): string {
  const given = new URLSearchParams([...query].filter(([, value]) => value !== ""));
  return given.size === 0 ? `#/${view}` : `#/${view}?${given}`;
}

/** Shows another route, which the browser's history remembers. */
export function navigate(href: string): void {
  location.hash = href;
}

export const route = new Observable<Route>(parseRoute(location.hash));
addEventListener("hashchange", () => route.set(parseRoute(location.hash)));

/** Shows another route, in place of this one in the browser's history or after it. */
export function showRoute(href: string, place: "here" | "after" = "here"): void {
  if (place === "after") history.pushState(null, "", href);
  else history.replaceState(null, "", href);
  route.set(parseRoute(href));
}

/** A link to a market as it is shown. */
function shownHref({ marketId, at, interval, trades }: Omit<MarketRoute, "view">): string {
  const named = new URLSearchParams({
    ...(interval !== "" && { interval }),
    ...(trades && { [trades[0]]: trades[1] }),
  });
  const query = [...(at === undefined ? [] : [`at=${isoInstant(BigInt(at))}`]), `${named}`].filter(Boolean);
  return `${marketHref(marketId)}${query.length > 0 ? `?${query.join("&")}` : ""}`;
}

/** What of a market is shown: at another moment, or of another market, trades have pages of their own. */
function shownOf(change: Partial<MarketRoute>) {
  const shown = parseRoute(location.hash);
  const kept = shown.view === "market" ? shown : { at: undefined, interval: "" };
  const turns = "at" in change || "marketId" in change;
  return { ...kept, ...(turns && { trades: undefined }), ...change };
}

/** A link to another market at the moment and with the candles that are shown. */
export function otherMarketHref(marketId: string): string {
  return shownHref({ trades: undefined, ...shownOf({ marketId }), marketId });
}

/**
 * Shows a market at another moment, or other candles or trades, in place of what is shown in the browser's history. Of
 * all moments of the past, only the first is shown after the present: to go back leads there.
 */
export function showMarket(marketId: string, change: Partial<Pick<MarketRoute, "at" | "interval" | "trades">>): void {
  const { at } = shownOf({});
  const entersPast = at === undefined && change.at !== undefined;
  showRoute(shownHref({ trades: undefined, ...shownOf(change), marketId }), entersPast ? "after" : "here");
}
