import type { ConnectRouter, ConnectRouterOptions, HandlerContext } from "@connectrpc/connect";
import { openApi } from "../api/open-api.js";
import { jsonWriteOptions } from "../encoding/json-encoder.js";
import { createLog, logLevels } from "../telemetry/log.js";
import { createMetrics } from "../telemetry/metrics.js";
import { registerRoutes } from "./routes.js";

export { TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
export { MarketHistoryService } from "../../gen/marketd/history/v1/market_history_pb.js";

/**
 * Give these to your adapter: with them, the JSON of Connect has every field, as docs/api.md describes it, and a request
 * with an unknown one is refused. Without them a filter that is misspelt selects everything.
 */
export const jsonOptions: NonNullable<ConnectRouterOptions["jsonOptions"]> = {
  ...jsonWriteOptions,
  ignoreUnknownFields: false,
};

/** Options of {@link openMarketd}. */
export interface MarketdOptions {
  /** `mysql://user:password@host:3306/database`. `marketd load` fills it. */
  readonly database: string;
  /** Log lines are JSON on standard error. Default: `warn`. */
  readonly logLevel?: "silent" | "error" | "warn" | "info" | "debug";
  /**
   * The address of a call's client, such as an interceptor found it. When the database has more requests than it can
   * serve, clients take turns. Each may have 8 replays that read the past. Default: all calls are of one client.
   */
  readonly clientAddress?: (context: HandlerContext) => string;
}

/** The service over one database. */
export interface Marketd {
  /** Registers the methods of `TradingDataService` and `MarketHistoryService`, for any adapter of Connect and for `createRouterTransport`. */
  readonly routes: (router: ConnectRouter) => void;
  /**
   * Ends every call with UNAVAILABLE and the reason DRAINING, also later ones, and resolves when the database is no longer
   * used. Close your server first.
   */
  close(): Promise<void>;
}

/**
 * Opens the service over a database. Resolves after the first attempt to read it: while it is empty or unreachable,
 * methods fail with UNAVAILABLE, and later they work. @throws Error if the URL is bad, if the database has another version,
 * or if the server refuses the user
 */
export async function openMarketd(options: MarketdOptions): Promise<Marketd> {
  const { database, logLevel = "warn", clientAddress = () => "" } = options ?? {};
  if (typeof database !== "string") {
    throw new TypeError('openMarketd takes options: { database: "mysql://user:password@host:3306/marketd" }');
  }
  if (!logLevels.includes(logLevel)) throw new TypeError(`logLevel is one of ${logLevels.join(", ")}`);
  const log = createLog(logLevel);
  const opened = await openApi({ databaseUrl: database, log, metrics: createMetrics() });
  return {
    routes: (router) => registerRoutes(router, { ...opened, log, clientAddress }),
    close: () => opened.close(),
  };
}
