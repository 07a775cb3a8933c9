import type uPlot from "uplot";
import { axisNumbers, axisTime, daySeconds } from "../format/axis-text.js";
import type { ChartColours } from "./chart.js";

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
const timeSteps = [
  ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200],
  ...[1, 2, 7, 14, 28, 91, 182, 364, 1_820].map((days) => days * daySeconds),
];
/** Between the places of an axis. */
const countSteps = [1, 2, 5, 10, 20, 50, 100];
/** Between the times of an axis, at least: a time with its date takes more than a time of day. */
const timeGapPx = 80;
const dateGapPx = 100;

/** An axis in the page's colours. */
function axis({ text, line }: ChartColours): uPlot.Axis {
  return { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
}

/** An axis of times in UTC: of times of day, or of dates where it is long. */
export function timeAxis(colours: ChartColours): uPlot.Axis {
  const values: uPlot.Axis["values"] = ({ scales }, splits, _, __, step) => {
    const { min = 0, max = 0 } = scales["x"] ?? {};
    return splits.map((seconds) => axisTime(seconds, step, (max ?? 0) - (min ?? 0)));
  };
  const space: uPlot.Axis["space"] = (_, __, min, max) => (max - min > daySeconds ? dateGapPx : timeGapPx);
  return { ...axis(colours), values, incrs: timeSteps, space, size: axisHeightPx };
}

/** Space above and below a line, as a part of what it moved by, and of its value where it did not move. */
const movedMargin = 0.1;
const unmovedMargin = 0.001;

/** The scale of a line that need not begin at zero. */
export function lineRange(_: uPlot, min: number | null, max: number | null): [number, number] {
  if (min === null || max === null) return [0, 1];
  const margin = (max - min) * movedMargin || Math.abs(max) * unmovedMargin || 1;
  return [min - margin, max + margin];
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

/** An axis of places that are counted from 0, each with a text, such as a time. */
export function countAxis(colours: ChartColours, textOf: (plot: uPlot, place: number) => string): uPlot.Axis {
  const texts: uPlot.Axis["values"] = (plot, places) => places.map((place) => textOf(plot, place));
  return { ...axis(colours), values: texts, incrs: countSteps, space: dateGapPx, size: axisHeightPx };
}
