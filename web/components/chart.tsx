import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

/** Charts are drawn at most this often: reading them does not need more. */
const drawIntervalMs = 250;

/** Colours of the page's style, which follow light and dark, and whether the chart's card is dimmed. */
export interface ChartColours {
  readonly text: string;
  readonly line: string;
  readonly accent: string;
  readonly buy: string;
  readonly sell: string;
}

type Options = Omit<uPlot.Options, "width" | "height">;

interface ChartProps {
  readonly id: string;
  readonly height: number;
  /** What the chart shows, in words. */
  readonly description: string;
  /** Called when the chart is drawn, which is less often than the component is rendered. */
  readonly data: () => uPlot.AlignedData;
  /** Called again when the colours change. It has to be the same function each time. */
  readonly options: (colours: ChartColours) => Options;
  /** Called with the place of the values that are pointed at, counted from 0; undefined: none are. */
  readonly onPoint?: (place: number | undefined) => void;
}

function coloursOf(element: Element): ChartColours {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    text: colour("quiet"),
    line: colour("line"),
    accent: colour("accent"),
    buy: colour("buy"),
    sell: colour("sell"),
  };
}

/** A chart as wide as its place. */
export function Chart({ id, height, description, data, options, onPoint = () => {} }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const draw = useRef(() => {});
  const newest = useRef(data);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const pointed = useRef(onPoint);
  newest.current = data;
  pointed.current = onPoint;

  useEffect(() => {
    const container = place.current;
    if (container === null) return undefined;
    let made = "";
    const redraw = () => {
      const colours = coloursOf(container);
      if (made === Object.values(colours).join()) {
        plot.current?.setData(newest.current());
        return;
      }
      made = Object.values(colours).join();
      plot.current?.destroy();
      const size = { width: container.clientWidth, height };
      const given = options(colours);
      const setCursor = [({ cursor }: uPlot) => pointed.current(cursor.idx ?? undefined)];
      const hooks = { ...given.hooks, setCursor };
      plot.current = new uPlot({ ...given, ...size, hooks }, newest.current(), container);
    };
    redraw();
    draw.current = redraw;
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", redraw);
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: container.clientWidth, height }));
    resized.observe(container);
    return () => {
      scheme.removeEventListener("change", redraw);
      resized.disconnect();
      clearTimeout(timer.current);
      timer.current = undefined;
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [height, options]);

  useEffect(() => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      draw.current();
    }, drawIntervalMs);
  });
  return <div id={id} class="chart" ref={place} role="img" aria-label={description} />;
}
