import { Amount } from "../components/amount.js";
import { Facts } from "../components/facts.js";
import { duration, instant } from "../format/instant.js";
import { enumName } from "../format/names.js";
import { placesOf } from "../service/market-directory.js";
import type { Market, MarketData, PriceBounds } from "../service/messages.js";

/** What the network states of a market, without best prices: the order book has newer ones. */
export function MarketDataFacts({ market, data }: { readonly market: Market; readonly data: MarketData }) {
  const places = placesOf(market);
  const price = (value: string) => <Amount value={value} places={places.price} />;
  const size = (value: string) => <Amount value={value} places={places.size} />;
  const auction =
    data.auctionStart === "0"
      ? []
      : ([
          ["Auction by", enumName(data.trigger, "AUCTION_TRIGGER_")],
          ["Auction ends (UTC)", <span class="amount">{instant(data.auctionEnd)}</span>],
          ["Indicative price", price(data.indicativePrice)],
          ["Indicative volume", size(data.indicativeVolume)],
        ] as const);
  return (
    <div id="market-data">
      <Facts
        facts={[
          ["Stated in the block of (UTC)", <span class="amount">{instant(data.timestamp)}</span>],
          ["Mark price", price(data.markPrice)],
          ["Open interest", size(data.openInterest)],
          ...auction,
          ["Supplied stake", <Amount value={data.suppliedStake} />],
          ["Target stake", <Amount value={data.targetStake} />],
        ]}
      />
      <p class="quiet">Stakes are in the smallest unit of the settlement asset.</p>
    </div>
  );
}

/** Prices beyond which an auction begins. */
export function PriceBoundsTable({
  bounds,
  places,
}: {
  readonly bounds: readonly PriceBounds[];
  readonly places: number;
}) {
  return (
    <table id="price-bounds" class="plain">
      <thead>
        <tr>
          <th scope="col">Horizon</th>
          <th scope="col">From</th>
          <th scope="col">To</th>
          <th scope="col">Reference</th>
        </tr>
      </thead>
      <tbody>
        {bounds.map(({ trigger, minValidPrice, maxValidPrice, referencePrice }) => (
          <tr key={trigger?.horizon}>
            <th scope="row">{trigger === undefined ? "" : duration(Number(trigger.horizon))}</th>
            <td>
              <Amount value={minValidPrice} places={places} />
            </td>
            <td>
              <Amount value={maxValidPrice} places={places} />
            </td>
            <td>
              <Amount value={referencePrice} places={places} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
