import type { PastMarket } from "../books/past-market.js";
import { Card } from "../components/card.js";
import { useObservable } from "../hooks/observable.js";
import { BookCard, ChartCards } from "./book-panels.js";

/** The panels of a market at a moment of the past: its book. */
export function PastPanels({ past }: { readonly past: PastMarket }) {
  const moment = useObservable(past.moment, (value) => value);
  if (moment === undefined) {
    return (
      <Card title="Order book" class="book">
        <p class="quiet">No book of this moment.</p>
      </Card>
    );
  }
  const { view, places, isStale } = moment;
  if (isStale) {
    return (
      <Card title="Order book" class="book">
        <p id="stale-moment">
          <strong class="stale-mark">Stale</strong>: the book is not known at this moment.
        </p>
      </Card>
    );
  }
  return (
    <>
      <BookCard view={view} places={places} />
      <div class="charts">
        <ChartCards view={view} places={places} />
      </div>
    </>
  );
}
