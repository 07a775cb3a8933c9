import { Card } from "../components/card.js";
import { stalePoll } from "../hooks/staleness.js";
import type { Polled } from "../hooks/use-poll.js";
import { placesOf } from "../service/market-directory.js";
import type { Market } from "../service/messages.js";
import type { MarketDataResponse } from "../service/service.js";
import { MarketDataFacts } from "./market-data-facts.js";
import { PriceBoundsTable } from "./price-bounds-table.js";

interface MarketDataPanelsProps {
  readonly market: Market;
  /** Without a value: the network has stated none. */
  readonly polled: Polled<MarketDataResponse | undefined>;
  /** Says since when the network stands still; undefined: it does not. */
  readonly standstill: string | undefined;
}

/** What the network states of a market, and its price bounds. */
export function MarketDataPanels({ market, polled, standstill }: MarketDataPanelsProps) {
  const { value: response, error, at } = polled;
  const bounds = response?.data.priceMonitoringBounds ?? [];
  const hasNone = at > 0 && error === undefined;
  const stale = stalePoll(polled) ?? standstill;
  return (
    <>
      <Card title="Market data" stale={stale}>
        {response === undefined ? (
          <p class="quiet">{hasNone ? "The network has stated none yet." : "Loading…"}</p>
        ) : (
          <MarketDataFacts market={market} response={response} />
        )}
      </Card>
      {bounds.length > 0 && (
        <Card title="Price bounds" stale={stale}>
          <PriceBoundsTable bounds={bounds} places={placesOf(market).price} />
        </Card>
      )}
    </>
  );
}
