import { useState } from "preact/hooks";
import uPlot from "uplot";
import type { DepthLevel } from "../../src/domain/depth-book.js";
import type { BookView } from "../books/book-store.js";
import { type DepthCurve, depthCurve } from "../books/depth-curve.js";
import { drawnDecimals, drawnUnit, type Places, scaled } from "../format/decimal.js";
import { Chart, type ChartColours } from "./chart.js";
import { bottomAxis, sideAxis } from "./chart-axis.js";
import { Segments } from "./segments.js";

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
    axes: [bottomAxis(colours), sideAxis(colours)],
    series: [{}, side(colours.buy, -1), side(colours.sell, 1)],
  };
}

function alignedData({ bids, asks }: DepthCurve): uPlot.AlignedData {
  const points = [
    ...bids.map(({ price, volume }) => ({ price, bid: volume, ask: null })),
    ...asks.map(({ price, volume }) => ({ price, bid: null, ask: volume })),
  ];
  // By price: in an auction bids may be above asks.
  points.sort((a, b) => a.price - b.price);
  return [points.map(({ price }) => price), points.map(({ bid }) => bid), points.map(({ ask }) => ask)];
}

function rangeText({ far, levels, share }: DepthCurve): string {
  if (far === 0) return "All levels are shown.";
  const percent = (share * 100).toPrecision(2);
  return `Prices within ±${Number(percent)}\u202f% of the mid price; ${far} of ${levels} levels are further away.`;
}

/** How much volume rests up to each price, on both sides. */
export function DepthChart({ view, places }: { readonly view: BookView; readonly places: Places }) {
  const [range, setRange] = useState<"near" | "all">("near");
  const decimals = drawnDecimals((view.quote.bid ?? view.quote.ask)?.price, places.price);
  const curve = depthCurve(view, { ...places, price: places.price - decimals }, range === "all");
  if (curve.levels === 0) return <p class="quiet">The book is empty.</p>;
  const { bid, ask } = view.quote;
  const best = (level: DepthLevel | undefined) => (level === undefined ? "none" : scaled(level.price, places.price));
  const description = `Cumulative depth: best bid ${best(bid)}, best ask ${best(ask)}`;
  return (
    <>
      <Chart
        id="depth-chart"
        height={220}
        description={description}
        data={() => alignedData(curve)}
        options={options}
      />
      <div class="chart-foot">
        <p id="depth-range" class="quiet">
          {rangeText(curve)}
          {drawnUnit(decimals)}
        </p>
        <Segments legend="Prices" name="depth-range" values={["near", "all"]} chosen={range} onChoose={setRange} />
      </div>
    </>
  );
}
