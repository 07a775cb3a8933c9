import type uPlot from "uplot";
import type { ChartColours } from "./chart.js";

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });
const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 8 });
const compactMin = 1e6;
const exponentialMin = 1e15;

/** Height of an axis of numbers or times below a chart. */
const axisHeightPx = 30;
/** Between the times of an axis, in seconds. */
const timeSteps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600];

const fraction = (text: string) => text.split(".")[1] ?? "";

/** Numbers beside an axis, in a few characters each, all with the same decimals. */
function axisNumbers(values: readonly number[]): string[] {
  const places = Math.max(0, ...values.map((value) => fraction(plain.format(value)).length));
  const exact = new Intl.NumberFormat("en", { minimumFractionDigits: places, maximumFractionDigits: 8 });
  return values.map((value) => {
    const size = Math.abs(value);
    if (size >= exponentialMin) return value.toExponential(2);
    return (size >= compactMin ? compact : exact).format(value).replaceAll(",", "\u202f");
  });
}

/** An axis in the page's colours. */
function axis({ text, line }: ChartColours): uPlot.Axis {
  return { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
}

/** An axis of times of day, in UTC. */
export function timeAxis(colours: ChartColours): uPlot.Axis {
  const values: uPlot.Axis["values"] = (_, splits) =>
    splits.map((seconds) => new Date(seconds * 1_000).toISOString().slice(11, 19));
  return { ...axis(colours), values, incrs: timeSteps, space: 80, size: axisHeightPx };
}

/** An axis of numbers; `size` is its width where it is beside the chart. */
export function numberAxis(colours: ChartColours, size = axisHeightPx): uPlot.Axis {
  const values: uPlot.Axis["values"] = (_, splits) => axisNumbers(splits);
  return { ...axis(colours), values, size };
}
