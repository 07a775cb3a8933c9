import { useState } from "preact/hooks";
import uPlot from "uplot";
import type { BalanceStep } from "../accounts/balances.js";
import { approximate, drawnDecimals, drawnUnit, scaled } from "../format/decimal.js";
import { shortTime } from "../format/time-text.js";
import { Chart, type ChartColours } from "./chart.js";
import { lineRange, sideAxis, timeAxis } from "./chart-axis.js";

const chartHeightPx = 180;
const axisPaddingPx = 40;

function options(colours: ChartColours): Omit<uPlot.Options, "width" | "height"> {
  const line: uPlot.Series = {
    stroke: colours.accent,
    width: 2,
    points: { show: false },
    ...(uPlot.paths.stepped === undefined ? {} : { paths: uPlot.paths.stepped({ align: 1 }) }),
  };
  return {
    legend: { show: false },
    // The time at the end of the axis is written around it.
    padding: [null, axisPaddingPx, null, null],
    cursor: { drag: { x: false, y: false } },
    scales: { y: { range: lineRange } },
    axes: [timeAxis(colours), sideAxis(colours)],
    series: [{}, line],
  };
}

interface BalanceChartProps {
  /** Oldest first, at least two; the last is the end of the line. */
  readonly steps: readonly BalanceStep[];
  readonly places: number;
  /** What the chart shows, in words. */
  readonly description: string;
}

/** What accounts hold together, step by step. */
export function BalanceChart({ steps, places, description }: BalanceChartProps) {
  const longest = steps.map(({ total }) => String(total)).reduce((a, b) => (b.length > a.length ? b : a), "0");
  const decimals = longest === "0" ? 0 : drawnDecimals(longest, places);
  const [place, setPlace] = useState<number | undefined>(undefined);
  const pointed = place === undefined ? undefined : steps[place];
  const data = (): uPlot.AlignedData => [
    steps.map(({ timestamp }) => Number(BigInt(timestamp) / 1_000n) / 1e6),
    steps.map(({ total }) => approximate(total, places - decimals)),
  ];
  return (
    <>
      <Chart id="balance-chart" height={chartHeightPx} {...{ description, data, options }} onPoint={setPlace} />
      <p class="quiet">
        {pointed === undefined
          ? "Point at the chart to read it."
          : `From ${shortTime(BigInt(pointed.timestamp))} UTC: ${scaled(pointed.total, places)}`}
      </p>
      {decimals > 0 && <p class="quiet">{drawnUnit(decimals, "Balances")}</p>}
    </>
  );
}
