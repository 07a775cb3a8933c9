import type uPlot from "uplot";
import type { ChartColours } from "./chart.js";

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });
const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 8 });
const compactMin = 1e6;
const exponentialMin = 1e15;

/** A number beside an axis, in a few characters. */
function axisNumber(value: number): string {
  const size = Math.abs(value);
  if (size >= exponentialMin) return value.toExponential(2);
  return (size >= compactMin ? compact : plain).format(value).replaceAll(",", "\u202f");
}

/** An axis in the page's colours. */
function axis({ text, line }: ChartColours): uPlot.Axis {
  return { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
}

/** An axis of times of day, in UTC. */
export function timeAxis(colours: ChartColours): uPlot.Axis {
  const values: uPlot.Axis["values"] = (_, splits) =>
    splits.map((seconds) => new Date(seconds * 1_000).toISOString().slice(11, 19));
  return { ...axis(colours), values, space: 80 };
}

/** An axis of numbers; `size` is its width, if it is beside the chart. */
export function numberAxis(colours: ChartColours, size?: number): uPlot.Axis {
  const values: uPlot.Axis["values"] = (_, splits) => splits.map(axisNumber);
  return { ...axis(colours), values, ...(size === undefined ? {} : { size }) };
}
