import type { PastMarket, PastMoment } from "../books/past-market.js";
import { Amount } from "../components/amount.js";
import { Card } from "../components/card.js";
import { Facts } from "../components/facts.js";
import { Time } from "../components/time.js";
import { enumName } from "../format/names.js";
import { useObservable } from "../hooks/observable.js";
import { BookCard, ChartCards } from "./book-panels.js";

/** The panels of a market at a moment of the past: its book, and its last trade where that is known. */
export function PastPanels({ past }: { readonly past: PastMarket }) {
  const moment = useObservable(past.moment, (value) => value);
  const isPlaying = useObservable(past.playing, (speed) => speed !== undefined);
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
        {!isPlaying && <LastTrade moment={moment} />}
      </div>
    </>
  );
}

function LastTrade({ moment: { lastTrade, places } }: { readonly moment: PastMoment }) {
  return (
    <Card title="Last trade">
      {lastTrade === undefined ? (
        <p class="quiet">None is known.</p>
      ) : (
        <Facts
          facts={[
            ["Time (UTC)", <Time key="time" at={lastTrade.timestamp} />],
            ["Price", <Amount key="price" value={lastTrade.price} places={places.price} />],
            ["Size", <Amount key="size" value={lastTrade.size} places={places.size} />],
            ["Aggressor", enumName(lastTrade.aggressor, "SIDE_")],
          ]}
        />
      )}
    </Card>
  );
}
