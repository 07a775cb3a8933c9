import { type ObserveTradesRequest, TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { type Call, type StreamMethod, serverStreaming } from "../domain/service.js";
import type { FeedOwner } from "../live/feed.js";
import type { Live } from "../live/live.js";
import type { LiveState } from "../live/live-state.js";
import type { Database } from "../store/database.js";
import { TradeFeed, TradeFollower } from "../trades/trade-feed.js";
import { readIdentifiers } from "./ledger-filter.js";

/** ObserveTrades: the trades of the given markets and parties, or all, from the next block on. */
export function observeTrades(options: { readonly live: Live; readonly database: Database }): StreamMethod {
  const { live, database } = options;
  // One for each store.
  const followers = new WeakMap<LiveState, TradeFollower>();
  return serverStreaming(TradingDataService.method.observeTrades, (request: ObserveTradesRequest, call: Call) => {
    const marketIds = [...readIdentifiers("market_ids", request.marketIds)].sort();
    const partyIds = [...readIdentifiers("party_ids", request.partyIds)].sort();
    const state = live.state();
    for (const id of marketIds) state.requireMarket(id);
    const follower = followers.get(state) ?? new TradeFollower(database, state);
    followers.set(state, follower);
    const key = `trades ${JSON.stringify([marketIds, partyIds])}`;
    const makeFeed = (owner: FeedOwner) => new TradeFeed(follower, { marketIds, partyIds }, owner);
    return live.openFeed(key, follower.newest, makeFeed, call.clientAddress);
  });
}
