import type { BookView } from "../books/book-store.js";
import { BestPrices } from "../components/best-prices.js";
import { Card } from "../components/card.js";
import { DepthChart } from "../components/depth-chart.js";
import { Ladder } from "../components/ladder.js";
import { MidChart } from "../components/mid-chart.js";
import { placesOf } from "../service/market-directory.js";
import type { Market } from "../service/messages.js";
import { TradesSeen } from "./trades-seen.js";

/** The panels that show the book. All of them show the same one. */
export function BookPanels({ view, market, stale }: { view: BookView; market: Market; stale: string | undefined }) {
  const places = placesOf(market);
  return (
    <>
      <Card title="Order book" class="book" stale={stale}>
        <BestPrices view={view} places={places} />
        <Ladder view={view} places={places} />
        <p class="quiet">
          {view.buy.length} bid and {view.sell.length} ask levels, update{" "}
          <span id="sequence-number">{String(view.sequenceNumber)}</span>
        </p>
      </Card>
      <div class="charts">
        <Card title="Mid price" stale={stale}>
          <MidChart view={view} places={places.price} />
        </Card>
        <Card title="Depth" stale={stale}>
          <DepthChart view={view} places={places} />
        </Card>
        <TradesSeen market={market} />
      </div>
    </>
  );
}
