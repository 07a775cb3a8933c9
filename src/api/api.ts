import type { StreamMethod, UnaryMethod } from "../domain/service.js";
import type { History } from "../history/history.js";
import type { LedgerReader } from "../ledger/ledger-reader.js";
import type { Live } from "../live/live.js";
import type { Database } from "../store/database.js";
import type { Log } from "../telemetry/log.js";
import { exportLedgerEntries } from "./export-ledger-entries.js";
import { getAsset } from "./get-asset.js";
import { getLastTrade } from "./get-last-trade.js";
import { getLatestMarketData } from "./get-latest-market-data.js";
import { getLatestMarketDepth } from "./get-latest-market-depth.js";
import { getMarket } from "./get-market.js";
import { getMarketDepthAt } from "./get-market-depth-at.js";
import { listAccounts } from "./list-accounts.js";
import { listAssets } from "./list-assets.js";
import { listBalanceChanges } from "./list-balance-changes.js";
import { listCandleData } from "./list-candle-data.js";
import { listCandleIntervals } from "./list-candle-intervals.js";
import { listErc20MultiSigSignerRemovedBundles } from "./list-erc20-multi-sig-signer-removed-bundles.js";
import { listLatestMarketData } from "./list-latest-market-data.js";
import { listLedgerEntries } from "./list-ledger-entries.js";
import { listMarketDepthChanges } from "./list-market-depth-changes.js";
import { listMarkets } from "./list-markets.js";
import { listTrades } from "./list-trades.js";
import { observeCandleData } from "./observe-candle-data.js";
import { observeMarketsData } from "./observe-markets-data.js";
import { observeMarketsDepthUpdates } from "./observe-markets-depth-updates.js";
import { observeTrades } from "./observe-trades.js";
import { replayMarketsDepth } from "./replay-markets-depth.js";

/** What the methods read from. */
export interface ApiOptions {
  readonly live: Live;
  readonly database: Database;
  readonly ledger: LedgerReader;
  readonly history: History;
  readonly log: Log;
}

/** All methods of the services, in the order of the definitions. */
export function createApi(options: ApiOptions): readonly (UnaryMethod | StreamMethod)[] {
  return [
    getMarket(options),
    getLatestMarketDepth(options),
    getLatestMarketData(options),
    listLatestMarketData(options),
    observeMarketsDepthUpdates(options),
    onceReady(options.live, listLedgerEntries(options)),
    onceReady(options.live, exportLedgerEntries(options)),
    onceReady(options.live, listErc20MultiSigSignerRemovedBundles(options)),
    listMarkets(options),
    listAssets(options),
    getAsset(options),
    onceReady(options.live, listTrades(options)),
    getLastTrade(options),
    listCandleIntervals(options),
    listCandleData(options),
    onceReady(options.live, listAccounts(options)),
    onceReady(options.live, listBalanceChanges(options)),
    observeMarketsData(options),
    observeTrades(options),
    observeCandleData(options),
    getMarketDepthAt(options),
    listMarketDepthChanges(options),
    replayMarketsDepth(options),
  ];
}

/** Before the first load an empty page would be wrong, and the tables may not exist. */
function onceReady(live: Live, method: UnaryMethod | StreamMethod): UnaryMethod | StreamMethod {
  const checked =
    <A extends unknown[], R>(serve: (...args: A) => R) =>
    (...args: A): R => {
      live.state();
      return serve(...args);
    };
  return method.kind === "unary"
    ? { ...method, invoke: checked(method.invoke) }
    : { ...method, open: checked(method.open) };
}
