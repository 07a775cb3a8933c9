import uPlot from "uplot";
import type { DepthLevel } from "../../src/domain/depth-book.js";
import type { BookView } from "../books/book-store.js";
import { approximate, scaled } from "../format/decimal.js";
import { Chart, type ChartColours } from "./chart.js";
import { numberAxis } from "./chart-axis.js";

/** Levels of a side that are drawn. */
const levelsMax = 80;

interface Places {
  readonly price: number;
  readonly size: number;
}

function options(colours: ChartColours): Omit<uPlot.Options, "width" | "height"> {
  const side = (stroke: string, align: 1 | -1): uPlot.Series => ({
    stroke,
    fill: `color-mix(in srgb, ${stroke} 18%, transparent)`,
    width: 2,
    spanGaps: true,
    points: { show: false },
    ...(uPlot.paths.stepped === undefined ? {} : { paths: uPlot.paths.stepped({ align }) }),
  });
  return {
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    scales: { x: { time: false }, y: { range: (_, __, max) => [0, max * 1.05 || 1] } },
    axes: [numberAxis(colours), numberAxis(colours, 64)],
    series: [{}, side(colours.buy, -1), side(colours.sell, 1)],
  };
}

/** Price and cumulative volume of each level, best first. */
function cumulative(levels: readonly DepthLevel[], { price, size }: Places): { x: number; y: number }[] {
  let sum = 0n;
  return levels.slice(0, levelsMax).map((level) => {
    sum += level.volume;
    return { x: approximate(level.price, price), y: approximate(sum, size) };
  });
}

function alignedData({ buy, sell }: BookView, places: Places): uPlot.AlignedData {
  const bids = cumulative(buy, places).map(({ x, y }) => ({ x, bid: y, ask: null }));
  const asks = cumulative(sell, places).map(({ x, y }) => ({ x, bid: null, ask: y }));
  // By price: in an auction bids may be above asks.
  const points = [...bids, ...asks].sort((a, b) => a.x - b.x);
  return [points.map(({ x }) => x), points.map(({ bid }) => bid), points.map(({ ask }) => ask)];
}

/** How much volume rests up to each price, on both sides. */
export function DepthChart({ view, places }: { readonly view: BookView; readonly places: Places }) {
  const { bid, ask } = view.quote;
  const best = (level: DepthLevel | undefined) => (level === undefined ? "none" : scaled(level.price, places.price));
  const description = `Cumulative depth: best bid ${best(bid)}, best ask ${best(ask)}`;
  const data = () => alignedData(view, places);
  return <Chart id="depth-chart" height={220} description={description} data={data} options={options} />;
}
