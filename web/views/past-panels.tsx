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
  const { view, places } = moment;
  return (
    <>
      <BookCard view={view} places={places} />
      <div class="charts">
        <ChartCards view={view} places={places} />
      </div>
    </>
  );
}
