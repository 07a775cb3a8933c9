import { Amount } from "../components/amount.js";
import { AssetAmount } from "../components/asset-amount.js";
import { Facts } from "../components/facts.js";
import { Time } from "../components/time.js";
import { grouped } from "../format/decimal.js";
import { enumName } from "../format/names.js";
import { placesOf } from "../service/market-directory.js";
import type { Market } from "../service/messages.js";
import type { MarketDataResponse } from "../service/service.js";

interface MarketDataFactsProps {
  readonly market: Market;
  readonly response: MarketDataResponse;
}

/** What the network states of a market, without best prices: the order book has newer ones. */
export function MarketDataFacts({ market, response }: MarketDataFactsProps) {
  const { data, newestBlock, isOfNewestBlock } = response;
  const places = placesOf(market);
  const assetId = market.tradableInstrument?.instrument?.future?.settlementAsset ?? "";
  const price = (value: string) => <Amount value={value} places={places.price} />;
  const size = (value: string) => <Amount value={value} places={places.size} />;
  const auction =
    data.auctionStart === "0"
      ? []
      : ([
          ["Auction by", enumName(data.trigger, "AUCTION_TRIGGER_")],
          ["Auction ends (UTC)", <Time at={data.auctionEnd} />],
          ["Indicative price", price(data.indicativePrice)],
          ["Indicative volume", size(data.indicativeVolume)],
        ] as const);
  return (
    <div id="market-data">
      <Facts
        facts={[
          ["Block", isOfNewestBlock ? grouped(newestBlock) : `before ${grouped(newestBlock)}`],
          ["Block time (UTC)", <Time at={data.timestamp} />],
          ["Mark price", price(data.markPrice)],
          ["Open interest", size(data.openInterest)],
          ...auction,
          ["Supplied stake", <AssetAmount value={data.suppliedStake} assetId={assetId} hasUnit />],
          ["Target stake", <AssetAmount value={data.targetStake} assetId={assetId} hasUnit />],
        ]}
      />
    </div>
  );
}
