import type uPlot from "uplot";
import { axisTime } from "../format/axis-text.js";
import { approximate, drawnDecimals, drawnUnit, type Places, scaled } from "../format/decimal.js";
import type { Candle } from "../service/messages.js";
import { Chart, type ChartColours } from "./chart.js";
import { countAxis, sideAxis } from "./chart-axis.js";

/** Parts of the height of the prices that are free above and below them; volumes are drawn below. */
const freeAbove = 0.08;
const freeBelow = 0.35;
/** Volumes take the lowest part of a chart: one in so many. */
const volumeShare = 5;
/** Where all prices are the same, the scale goes so far beyond them, as a part of the price. */
const unmovedMargin = 0.001;
/** A candle's width, as a part of its place. */
const bodyShare = 0.7;

function priceRange(_: uPlot, min: number | null, max: number | null): [number, number] {
  if (min === null || max === null) return [0, 1];
  const height = max - min || Math.abs(max) * unmovedMargin || 1;
  return [min - height * freeBelow, max + height * freeAbove];
}

/** Draws candles and their volumes: uPlot has lines and bars only. */
function drawCandles(plot: uPlot, colours: ChartColours): void {
  const { ctx } = plot;
  const [places = [], opens = [], highs = [], lows = [], closes = [], volumes = []] = plot.data;
  const x = (value: number) => plot.valToPos(value, "x", true);
  const y = (value: number) => plot.valToPos(value, "y", true);
  const width = Math.max(1, Math.round((x(1) - x(0)) * bodyShare));
  const line = Math.max(1, Math.round(devicePixelRatio));
  const floor = plot.bbox.top + plot.bbox.height;
  ctx.save();
  for (const place of places) {
    const at = (values: ArrayLike<number | null | undefined>) => values[place] ?? 0;
    const middle = Math.round(x(place));
    const left = middle - Math.floor(width / 2);
    ctx.fillStyle = at(closes) < at(opens) ? colours.sell : colours.buy;
    ctx.globalAlpha = 0.35;
    const top = plot.valToPos(at(volumes), "volume", true);
    ctx.fillRect(left, top, width, floor - top);
    ctx.globalAlpha = 1;
    ctx.fillRect(middle - Math.floor(line / 2), y(at(highs)), line, y(at(lows)) - y(at(highs)));
    const [from, to] = [y(at(opens)), y(at(closes))];
    ctx.fillRect(left, Math.min(from, to), width, Math.max(line, Math.abs(from - to)));
  }
  ctx.restore();
}

/** The beginning of a candle beside the axis, by its place. */
function startText(plot: uPlot, place: number): string {
  const starts = plot.data.at(-1) ?? [];
  const start = starts[place];
  if (typeof start !== "number") return "";
  const [first, second] = [Number(starts[0]), Number(starts[1] ?? start)];
  return axisTime(start, second - first, Number(starts[starts.length - 1]) - first);
}

function options(colours: ChartColours): Omit<uPlot.Options, "width" | "height"> {
  const unseen: uPlot.Series = { paths: () => null, points: { show: false } };
  return {
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    scales: {
      x: { time: false, range: (_, min, max) => [min - 0.5, max + 0.5] },
      y: { range: priceRange },
      volume: { range: (_, __, max) => [0, (max || 1) * volumeShare] },
    },
    axes: [countAxis(colours, startText), sideAxis(colours)],
    series: [{}, unseen, unseen, unseen, unseen, { ...unseen, scale: "volume" }, { show: false, scale: "start" }],
    hooks: { draw: [(plot) => drawCandles(plot, colours)] },
  };
}

interface CandleChartProps {
  /** Oldest first, at least one. */
  readonly candles: readonly Candle[];
  readonly places: Places;
  readonly interval: string;
  /** Called with the place of the candle that is pointed at; undefined: none is. */
  readonly onPoint: (place: number | undefined) => void;
}

/** Candles side by side, with their volumes below them. Periods without trades have none, and no place. */
export function CandleChart({ candles, places, interval, onPoint }: CandleChartProps) {
  const newest = candles.at(-1);
  const decimals = drawnDecimals(newest?.close, places.price);
  const prices = (of: (candle: Candle) => string) =>
    candles.map((candle) => approximate(of(candle), places.price - decimals));
  const data = (): uPlot.AlignedData => [
    candles.map((_, place) => place),
    prices(({ open }) => open),
    prices(({ high }) => high),
    prices(({ low }) => low),
    prices(({ close }) => close),
    candles.map(({ volume }) => approximate(volume, places.size)),
    candles.map(({ start }) => Number(BigInt(start) / 1_000_000_000n)),
  ];
  const description = `Candles of ${interval}, the last one closes at ${scaled(newest?.close, places.price)}`;
  return (
    <>
      <Chart id="candle-chart" height={300} {...{ description, data, options, onPoint }} />
      {decimals > 0 && <p class="quiet">{drawnUnit(decimals)}</p>}
    </>
  );
}
