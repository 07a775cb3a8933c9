import type uPlot from "uplot";
import { timeOfDay } from "../../src/domain/instant.js";
import type { BookView } from "../books/book-store.js";
import { midPrice } from "../books/quote.js";
import { approximate, drawnDecimals, drawnUnit } from "../format/decimal.js";
import { Chart, type ChartColours } from "./chart.js";
import { lineRange, sideAxis, timeAxis } from "./chart-axis.js";

/** Where there is one moment, this much before and after it is shown, in seconds. */
const marginSeconds = 30;

function timeRange(_: uPlot, min: number, max: number): [number, number] {
  return min === max ? [min - marginSeconds, max + marginSeconds] : [min, max];
}

/** Prices that no line leads to or from are points. */
function singlePrices({ data }: uPlot, series: number): number[] {
  const prices = data[series] ?? [];
  const isKnown = (index: number) => typeof prices[index] === "number";
  return [...prices.keys()].filter((index) => isKnown(index) && !isKnown(index - 1) && !isKnown(index + 1));
}

function options(colours: ChartColours): Omit<uPlot.Options, "width" | "height"> {
  return {
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    scales: { x: { range: timeRange }, y: { range: lineRange } },
    axes: [timeAxis(colours), sideAxis(colours)],
    series: [{}, { stroke: colours.accent, width: 2, points: { show: false, filter: singlePrices, size: 6 } }],
  };
}

/** The mid price of up to an hour: from a minute before the page was opened, or before the moment that is shown. */
export function MidChart({ view, places }: { readonly view: BookView; readonly places: number }) {
  const { mids, quote } = view;
  const decimals = drawnDecimals((quote.bid ?? quote.ask)?.price, places);
  const data = (): uPlot.AlignedData => [
    mids.map(({ atMs }) => atMs / 1_000),
    mids.map(({ midTwice }) => (midTwice === undefined ? null : approximate(midTwice, places - decimals) / 2)),
  ];
  if (mids.every(({ midTwice }) => midTwice === undefined))
    return <p class="quiet">None yet: a side of the book is empty.</p>;
  const bounds = [mids.at(0), mids.at(-1)].map((sample) => timeOfDay(sample?.atMs ?? 0));
  const description = `Mid price from ${bounds.join(" to ")}, now ${midPrice(quote, places)}`;
  return (
    <>
      <Chart id="mid-chart" height={220} description={description} data={data} options={options} />
      {decimals > 0 && <p class="quiet">{drawnUnit(decimals)}</p>}
    </>
  );
}
