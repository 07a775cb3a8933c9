import type uPlot from "uplot";
import type { ChartColours } from "./chart.js";

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });
/** Beyond what a chart can tell apart. */
const fractionDigitsMax = 12;
const plain = new Intl.NumberFormat("en", { maximumFractionDigits: fractionDigitsMax });
const compactMin = 1e6;
const exponentialMin = 1e15;
/** About those of the numbers of an axis. */
const significantDigits = 7;

/** Height of an axis of numbers or times below a chart. */
const axisHeightPx = 30;
/** Width of an axis beside a chart, besides its numbers, and at least. */
const axisMarginPx = 22;
const axisWidthMinPx = 64;
/** Width of a digit in the font of axes, and space between two numbers. */
const digitWidthPx = 7;
const numberGapPx = 24;
/** Between the times of an axis, in seconds. */
const timeSteps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600];

const fraction = (text: string) => text.split(".")[1] ?? "";

/** Numbers beside an axis, in a few characters each, all with the same decimals. */
function axisNumbers(values: readonly number[]): string[] {
  const short = values.map((value) => compact.format(value));
  // Large numbers that differ by little need all their digits.
  const isLarge = values.some((value) => Math.abs(value) >= compactMin) && new Set(short).size === values.length;
  const places = Math.max(0, ...values.map((value) => fraction(plain.format(value)).length));
  const exact = new Intl.NumberFormat("en", {
    minimumFractionDigits: places,
    maximumFractionDigits: fractionDigitsMax,
  });
  return values.map((value) => {
    const size = Math.abs(value);
    if (size >= exponentialMin) return value.toExponential(2);
    return (isLarge && size >= compactMin ? compact : exact).format(value).replaceAll(",", "\u202f");
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

const longest = (texts: readonly string[]) => Math.max(0, ...texts.map((text) => text.length));
const values = (_: uPlot, splits: number[]) => axisNumbers(splits);

/** An axis of numbers beside a chart, as wide as they are. */
export function sideAxis(colours: ChartColours): uPlot.Axis {
  const size = (_: uPlot, texts: readonly string[] | null) =>
    Math.max(axisWidthMinPx, longest(texts ?? []) * digitWidthPx + axisMarginPx);
  return { ...axis(colours), values, size };
}

/** An axis of numbers below a chart, which has space for each of them. */
export function bottomAxis(colours: ChartColours): uPlot.Axis {
  const space = (_: uPlot, __: number, min: number, max: number) =>
    longest(axisNumbers([min, (min + max) / 2, max].map((value) => Number(value.toPrecision(significantDigits))))) *
      digitWidthPx +
    numberGapPx;
  return { ...axis(colours), values, space, size: axisHeightPx };
}
