import { useMemo } from "preact/hooks";
import type { MidSample } from "../books/book-store.js";

const width = 144;
const height = 28;
const samplesMax = 120;

/** A small drawing of the newest mid prices, about two minutes of them. It says nothing that text beside it does not. */
export function Sparkline({ mids }: { readonly mids: readonly MidSample[] }) {
  // The samples of a second are one.
  const second = Math.floor((mids.at(-1)?.atMs ?? 0) / 1_000);
  return useMemo(() => draw(mids), [mids, second]);
}

function draw(mids: readonly MidSample[]) {
  const shown = mids.slice(-samplesMax);
  const [first] = shown;
  if (first === undefined) return <svg class="sparkline" viewBox={`0 0 ${width} ${height}`} aria-hidden="true" />;
  const offsets = shown.map(({ midTwice }) => Number(midTwice - first.midTwice));
  const low = Math.min(...offsets);
  const range = Math.max(...offsets) - low || 1;
  const points = offsets.map((offset, index) => {
    const x = shown.length === 1 ? width : (index / (shown.length - 1)) * width;
    return `${x.toFixed(1)},${(height - 2 - ((offset - low) / range) * (height - 4)).toFixed(1)}`;
  });
  const trend = (offsets.at(-1) ?? 0) < 0 ? "down" : "up";
  return (
    <svg class="sparkline" data-trend={trend} viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
      <polyline points={points.join(" ")} />
    </svg>
  );
}
