import { Market_State, Market_TradingMode } from "../../gen/vega/markets_pb.js";
import { AuctionTrigger } from "../../gen/vega/vega_pb.js";
import {
  announcementHeight,
  batchInterval,
  hasMarketData,
  monitoringBlocks,
  monitoringInterval,
  openingHeight,
  settlementHeight,
  terminationHeight,
} from "./market-role.js";
import type { Auction, Block, SimulatedMarket } from "./simulated-market.js";
import type { Treasury } from "./treasury.js";

const openingAuctionBlocks = 3;
/** Interval at which an endless opening auction announces a new end. */
const extensionInterval = 40;

function auction(
  block: Block,
  blocks: number,
  trigger: AuctionTrigger,
  extension = AuctionTrigger.UNSPECIFIED,
): Auction {
  return { startNs: block.timeNs, endNs: block.timeNs + BigInt(blocks) * block.intervalNs, trigger, extension };
}

/** Decisions on markets that never open. */
function decide(market: SimulatedMarket, block: Block): void {
  const states = new Map([
    ["rejected", Market_State.REJECTED],
    ["cancelled", Market_State.CANCELLED],
    ["closed", Market_State.CLOSED],
  ]);
  const state = states.get(market.role);
  if (state !== undefined) market.update(block, state, Market_TradingMode.NO_TRADING);
}

function open(market: SimulatedMarket, block: Block): void {
  if (market.role === "opening") return;
  market.leaveAuction(block);
  market.markPrice = market.lastTradedPrice === 0 ? market.fairPrice : market.lastTradedPrice;
  if (market.role === "batch") {
    market.enterAuction(block, auction(block, batchInterval, AuctionTrigger.BATCH));
    market.update(block, Market_State.ACTIVE, Market_TradingMode.BATCH_AUCTION);
  } else {
    market.update(block, Market_State.ACTIVE, Market_TradingMode.CONTINUOUS);
  }
}

function monitor(market: SimulatedMarket, block: Block): void {
  const since = block.height % monitoringInterval;
  if (since === 0) {
    const byPrice = (block.height / monitoringInterval) % 2 === 1;
    const trigger = byPrice ? AuctionTrigger.PRICE : AuctionTrigger.LIQUIDITY_TARGET_NOT_MET;
    const extension = byPrice ? AuctionTrigger.LIQUIDITY : AuctionTrigger.UNSPECIFIED;
    market.enterAuction(block, auction(block, monitoringBlocks, trigger, extension));
    market.update(block, Market_State.SUSPENDED, Market_TradingMode.MONITORING_AUCTION);
  } else if (since === monitoringBlocks && market.auction !== undefined) {
    market.leaveAuction(block);
    market.update(block, Market_State.ACTIVE, Market_TradingMode.CONTINUOUS);
  }
}

function terminate(market: SimulatedMarket, block: Block, treasury: Treasury): void {
  if (block.height === terminationHeight) {
    market.clearOrders(block);
    market.update(block, Market_State.TRADING_TERMINATED, Market_TradingMode.NO_TRADING);
  } else if (block.height === settlementHeight) {
    treasury.close(market);
    market.update(block, Market_State.SETTLED, Market_TradingMode.NO_TRADING);
  }
}

/** Advances a market by one block. */
export function live(market: SimulatedMarket, block: Block, treasury: Treasury): void {
  const age = market.role === "later" ? block.height - announcementHeight + 1 : block.height;
  if (!hasMarketData(market.role)) {
    if (age === 2) decide(market, block);
  } else if (age === 2) {
    market.enterAuction(block, auction(block, openingAuctionBlocks, AuctionTrigger.OPENING));
    market.update(block, Market_State.PENDING, Market_TradingMode.OPENING_AUCTION);
  } else if (age === openingHeight) {
    open(market, block);
  } else if (age > openingHeight) {
    if (market.role === "monitored") monitor(market, block);
    if (market.role === "batch" && block.height % batchInterval === 0) {
      market.uncross(block);
      market.auction = auction(block, batchInterval, AuctionTrigger.BATCH);
    }
    if (market.role === "opening" && block.height % extensionInterval === 0) {
      const trigger = AuctionTrigger.UNABLE_TO_DEPLOY_LP_ORDERS;
      market.auction = auction(block, extensionInterval, AuctionTrigger.OPENING, trigger);
    }
    if (market.role === "terminating") terminate(market, block, treasury);
  }
}
