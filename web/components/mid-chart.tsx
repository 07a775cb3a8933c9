import type uPlot from "uplot";
import type { BookView } from "../books/book-store.js";
import { midPrice } from "../books/quote.js";
import { approximate } from "../format/decimal.js";
import { Chart, type ChartColours } from "./chart.js";
import { numberAxis, timeAxis } from "./chart-axis.js";

function options(colours: ChartColours): Omit<uPlot.Options, "width" | "height"> {
  return {
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    axes: [timeAxis(colours), numberAxis(colours, 78)],
    series: [{}, { stroke: colours.accent, width: 2, points: { show: false } }],
  };
}

/** The mid price since the page was opened, up to an hour. */
export function MidChart({ view, places }: { readonly view: BookView; readonly places: number }) {
  const { mids, quote } = view;
  const data = (): uPlot.AlignedData => [
    mids.map(({ atMs }) => atMs / 1_000),
    mids.map(({ midTwice }) => approximate(midTwice, places) / 2),
  ];
  const description = `Mid price since the page was opened, now ${midPrice(quote, places)}`;
  return <Chart id="mid-chart" height={220} description={description} data={data} options={options} />;
}
