import type { BookStore, BookView } from "../books/book-store.js";
import { BestPrices } from "../components/best-prices.js";
import { Card } from "../components/card.js";
import { DepthChart } from "../components/depth-chart.js";
import { Ladder } from "../components/ladder.js";
import { MidChart } from "../components/mid-chart.js";
import type { Places } from "../format/decimal.js";
import { useObservable } from "../hooks/observable.js";
import { placesOf } from "../service/market-directory.js";
import type { Market } from "../service/messages.js";

interface BookPanelsProps {
  readonly books: BookStore;
  readonly market: Market;
  /** Says since when the book is old; undefined: it is not. */
  readonly stale: string | undefined;
  /** Says since when the market is stale; undefined: it is not. */
  readonly staleMarket: string | undefined;
}

/** The panels that show the book. All of them show the same one, and only they render when it changes. */
export function BookPanels({ books, market, stale, staleMarket }: BookPanelsProps) {
  const view = useObservable(books.views, (views) => views.get(market.id));
  const places = placesOf(market);
  if (view === undefined) {
    return (
      <Card title="Order book" class="book">
        {staleMarket === undefined ? (
          <p class="quiet">Waiting for the first book.</p>
        ) : (
          <p id="stale-market">
            <strong class="stale-mark">{staleMarket}</strong>: updates of the market’s venue were wrong or missing, so
            its book is not known. It comes back by itself with the venue’s next snapshot.
          </p>
        )}
      </Card>
    );
  }
  return (
    <>
      <BookCard view={view} places={places} stale={stale} />
      <div class="charts">
        <ChartCards view={view} places={places} stale={stale} />
      </div>
    </>
  );
}

interface ViewProps {
  readonly view: BookView;
  readonly places: Places;
  readonly stale?: string | undefined;
}

/** A book by price. */
export function BookCard({ view, places, stale }: ViewProps) {
  return (
    <Card title="Order book" class="book" stale={stale}>
      <BestPrices view={view} places={places} />
      <Ladder view={view} places={places} />
      <p class="quiet">
        {view.buy.length} bid and {view.sell.length} ask levels, update{" "}
        <span id="sequence-number">{String(view.sequenceNumber)}</span>
      </p>
    </Card>
  );
}

/** A book as charts. */
export function ChartCards({ view, places, stale }: ViewProps) {
  return (
    <>
      <Card title="Mid price" stale={stale}>
        <MidChart view={view} places={places.price} />
      </Card>
      <Card title="Depth" stale={stale}>
        <DepthChart view={view} places={places} />
      </Card>
    </>
  );
}
