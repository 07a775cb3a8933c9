import { Fragment } from "preact";
import { useState } from "preact/hooks";
import { candleIntervals, periodStart } from "../../src/domain/candle.js";
import { instant } from "../../src/domain/instant.js";
import { Amount } from "../components/amount.js";
import { CandleChart } from "../components/candle-chart.js";
import { Card } from "../components/card.js";
import { Scroll } from "../components/scroll.js";
import { Segments } from "../components/segments.js";
import { type Places, sizeLengthMax } from "../format/decimal.js";
import { stalePoll, staleStream } from "../hooks/staleness.js";
import { useLiveList } from "../hooks/use-live-list.js";
import { usePoll } from "../hooks/use-poll.js";
import { showMarket } from "../route.js";
import type { Candle, CandleInterval } from "../service/messages.js";
import { apiUrl, listCandleIntervals, listCandles, paths } from "../service/service.js";

/** Candles that are shown. */
const candlesMax = 100;
const retryMs = 5_000;
const firstInterval = "1 minute";

interface CandlesCardProps {
  readonly marketId: string;
  /** The chosen interval's name; an unknown one stands for {@link firstInterval}. */
  readonly interval: string;
  readonly places: Places;
  /** The moment that is shown, in Unix nanoseconds; undefined: now. */
  readonly at: string | undefined;
  /** Whether that is after the newest block: the newest candle is still running. */
  readonly isFuture: boolean;
  /** Says since when the network stands still; undefined: it does not. */
  readonly standstill: string | undefined;
}

/** A market's trades in brief, by periods of the reader's choice. */
export function CandlesCard(props: CandlesCardProps) {
  const { marketId } = props;
  const [known, setKnown] = useState(false);
  const { value, error } = usePoll(() => listCandleIntervals(marketId), known ? 0 : retryMs, marketId);
  if (value !== undefined && !known) setKnown(true);
  // A candle for each block would be one for each trade or two.
  const intervals = value?.filter(({ interval }) => interval !== "block");
  const named = (name: string) => intervals?.find((each) => each.interval === name);
  const interval = named(props.interval) ?? named(firstInterval) ?? intervals?.[0];
  if (intervals === undefined || interval === undefined) {
    return (
      <Card title="Candles">
        <p class="quiet">{error?.message ?? "Loading…"}</p>
      </Card>
    );
  }
  const choice = (
    <Segments
      legend="Interval"
      name="interval"
      values={intervals.map((each) => each.interval)}
      chosen={interval.interval}
      onChoose={(chosen) => showMarket(marketId, { interval: chosen })}
    />
  );
  return <Candles {...props} interval={interval} choice={choice} />;
}

/** The newest candles, and the running one as it changes; or those that were complete at a moment. */
function useCandles({ interval, candleId }: CandleInterval, at: string | undefined) {
  const seconds = candleIntervals.find(({ name }) => name === interval)?.seconds ?? 0;
  const until = at === undefined ? "" : String(periodStart(BigInt(at) + 1n, seconds));
  const query = [
    ["candleId", candleId],
    ["pagination.first", String(candlesMax)],
    ["toTimestamp", until],
  ] as const;
  return useLiveList<Candle, { readonly candle?: Candle }>({
    streamUrl: at === undefined ? apiUrl(paths.candleStream, [["candleId", candleId]]).href : undefined,
    key: candleId,
    part: until,
    list: async () => (await listCandles(query)).edges.map(({ node }) => node),
    rowsOf: ({ candle }) => (candle === undefined ? [] : [candle]),
    merge: (newer, older) => {
      const starts = new Set(newer.map(({ start }) => start));
      return [...newer, ...older.filter(({ start }) => !starts.has(start))].slice(0, candlesMax);
    },
  });
}

interface CandlesProps extends Omit<CandlesCardProps, "interval"> {
  readonly interval: CandleInterval;
  readonly choice: preact.JSX.Element;
}

function Candles({ places, at, isFuture, standstill, interval, choice }: CandlesProps) {
  const { rows, polled, lost } = useCandles(interval, at);
  const stale = at === undefined ? (staleStream(lost) ?? stalePoll(polled) ?? standstill) : undefined;
  /** The place of the candle that is pointed at, from the oldest. */
  const [pointed, setPointed] = useState<number | undefined>(undefined);
  const [asNumbers, setAsNumbers] = useState(false);
  const newest = rows?.[0];
  const told = pointed === undefined ? newest : (rows?.at(-1 - pointed) ?? newest);
  return (
    <Card title="Candles" stale={stale}>
      {choice}
      {rows === undefined && <p class="quiet">{polled.error?.message ?? "Loading…"}</p>}
      {rows !== undefined && newest === undefined && (
        <p id="no-candles" class="quiet">
          {at === undefined
            ? "There are none: no trade of this market is kept. They begin with its next trade."
            : "No period with trades was over at this moment."}
        </p>
      )}
      {rows !== undefined && newest !== undefined && told !== undefined && (
        <>
          <CandleChart candles={rows.toReversed()} places={places} interval={interval.interval} onPoint={setPointed} />
          <ToldCandle candle={told} places={places} isLastOver={at !== undefined && !isFuture && told === newest} />
          <details open={asNumbers} onToggle={(event) => setAsNumbers(event.currentTarget.open)}>
            <summary>As numbers</summary>
            <CandlesTable candles={rows} places={places} />
          </details>
        </>
      )}
    </Card>
  );
}

interface FigureProps {
  readonly candle: Candle;
  readonly places: Places;
}

/** The numbers of a candle, by their names. */
function figuresOf({ candle, places }: FigureProps) {
  const price = (value: string) => <Amount value={value} places={places.price} />;
  const { open, high, low, close, volume } = candle;
  return [
    ["Open", price(open)],
    ["High", price(high)],
    ["Low", price(low)],
    ["Close", price(close)],
    ["Volume", <Amount key="volume" value={volume} places={places.size} lengthMax={sizeLengthMax} />],
  ] as const;
}

/** When a candle begins: a period begins at a whole minute. */
const startOf = ({ start }: Candle) => instant(start).slice(0, 16);

/** The candle that is pointed at, or the newest one: at a moment of the past, the last whose period was over. */
function ToldCandle({ isLastOver, ...props }: FigureProps & { readonly isLastOver: boolean }) {
  return (
    <p id="newest-candle" class="quiet">
      {isLastOver && "The last that was over, of "}
      {startOf(props.candle)} UTC:{" "}
      {figuresOf(props).map(([name, figure]) => (
        <Fragment key={name}>
          <span class="figure">
            {name.toLowerCase()} {figure}
          </span>{" "}
        </Fragment>
      ))}
    </p>
  );
}

function CandlesTable({ candles, places }: { readonly candles: readonly Candle[]; readonly places: Places }) {
  return (
    <Scroll label="Candles">
      <table id="candles" class="stack">
        <thead>
          <tr>
            <th scope="col">From (UTC)</th>
            {["Open", "High", "Low", "Close", "Volume"].map((name) => (
              <th key={name} scope="col" class="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {candles.map((candle) => (
            <tr key={`${candle.start} ${candle.lastUpdate}`}>
              <th scope="row">{startOf(candle)}</th>
              {figuresOf({ candle, places }).map(([name, figure]) => (
                <td key={name} class="number" data-label={name}>
                  {figure}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}
