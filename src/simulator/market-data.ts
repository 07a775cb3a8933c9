import { Market_State, Market_TradingMode } from "../../gen/vega/markets_pb.js";
import { type MarketDataSchema, Side } from "../../gen/vega/vega_pb.js";
import type { Encodable } from "../encoding/field-values.js";
import type { Best } from "./matching-engine.js";
import type { Block, SimulatedMarket } from "./simulated-market.js";

/** The liquidity providers of a market, and their shares of the commitment, in hundredths. */
export interface LiquidityShare {
  readonly party: string;
  readonly hundredths: number;
}

function mid(bid: Best, offer: Best): number {
  return bid.volume === 0 || offer.volume === 0 ? 0 : Math.floor((bid.price + offer.price) / 2);
}

/** The price as text; "0" if there is none. */
function priceText(market: SimulatedMarket, ticks: number): string {
  return ticks === 0 ? "0" : market.scale.price(ticks);
}

function bests(market: SimulatedMarket) {
  const { engine, scale } = market;
  const bid = engine.best(Side.BUY);
  const offer = engine.best(Side.SELL);
  const staticBid = engine.bestStatic(Side.BUY);
  const staticOffer = engine.bestStatic(Side.SELL);
  return {
    bestBidPrice: priceText(market, bid.price),
    bestBidVolume: scale.size(bid.volume),
    bestOfferPrice: priceText(market, offer.price),
    bestOfferVolume: scale.size(offer.volume),
    bestStaticBidPrice: priceText(market, staticBid.price),
    bestStaticBidVolume: scale.size(staticBid.volume),
    bestStaticOfferPrice: priceText(market, staticOffer.price),
    bestStaticOfferVolume: scale.size(staticOffer.volume),
    midPrice: priceText(market, mid(bid, offer)),
    staticMidPrice: priceText(market, mid(staticBid, staticOffer)),
  };
}

function auction(market: SimulatedMarket) {
  if (market.auction === undefined) return { indicativePrice: "0", indicativeVolume: 0n };
  const indicative = market.engine.indicative();
  return {
    auctionStart: market.auction.startNs,
    auctionEnd: market.auction.endNs,
    trigger: market.auction.trigger,
    extensionTrigger: market.auction.extension,
    indicativePrice: priceText(market, indicative?.price ?? 0),
    indicativeVolume: market.scale.size(indicative?.volume ?? 0),
  };
}

function bounds(market: SimulatedMarket) {
  const triggers = market.definition.priceMonitoringSettings?.parameters?.triggers ?? [];
  const reference = market.markPrice === 0 ? market.fairPrice : market.markPrice;
  return triggers.map((trigger, index) => ({
    minValidPrice: market.scale.price(Math.floor((reference * (90 - index)) / 100)),
    maxValidPrice: market.scale.price(Math.floor((reference * (110 + index)) / 100)),
    referencePrice: market.scale.price(reference),
    trigger,
  }));
}

/** The current market data of a market, with the book as of this place in the stream. */
export function marketData(
  market: SimulatedMarket,
  block: Block,
  shares: readonly LiquidityShare[],
): Encodable<typeof MarketDataSchema> {
  const { asset, openInterest } = market;
  const target = (BigInt(openInterest) * BigInt(market.markPrice) * asset.unit * 3n) / 20n;
  const supplied = asset.endowment / 1_000n;
  const closed = market.definition.tradingMode === Market_TradingMode.NO_TRADING;
  return {
    ...bests(market),
    ...auction(market),
    market: market.id,
    timestamp: block.timeNs,
    markPrice: priceText(market, market.markPrice),
    lastTradedPrice: priceText(market, market.lastTradedPrice),
    openInterest: market.scale.size(openInterest),
    targetStake: target.toString(),
    suppliedStake: supplied.toString(),
    marketValueProxy: (supplied > target ? supplied : target).toString(),
    priceMonitoringBounds: closed ? [] : bounds(market),
    liquidityProviderFeeShare: shares.map(({ party, hundredths }) => ({
      party,
      equityLikeShare: `0.${String(hundredths).padStart(2, "0")}`,
      averageEntryValuation: ((supplied * BigInt(hundredths)) / 100n).toString(),
      averageScore: "0.5",
    })),
    marketState: market.definition.state,
    marketTradingMode: market.definition.tradingMode,
    nextMarkToMarket: market.definition.state === Market_State.ACTIVE ? block.timeNs + 5n * block.intervalNs : 0n,
  };
}
